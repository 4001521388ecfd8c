import { override } from '../model/override.ts';
import type { Connection } from './connection.ts';

/**
 * A connection that sends no write while `mayAct` is false. Such a write fails like a lost
 * connection, so the caller retries. Reads and watches go on.
 */
export function fencedConnection(connection: Connection, mayAct: () => boolean): Connection {
  return override<Connection>(connection, {
    request: async (path, options) =>
      (options?.method ?? 'GET') === 'GET' || mayAct()
        ? connection.request(path, options)
        : { kind: 'network', message: 'write refused: this process has not renewed its Lease' },
  });
}
