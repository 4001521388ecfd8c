import { override } from '../model/override.ts';
import type { Connection } from './connection.ts';

/**
 * A connection that writes nothing while `mayAct` is false: a write then fails as if the API server had not been
 * reached, so that the caller tries again. Reads and watches go on.
 */
export function fencedConnection(connection: Connection, mayAct: () => boolean): Connection {
  return override<Connection>(connection, {
    request: async (path, options) =>
      (options?.method ?? 'GET') === 'GET' || mayAct()
        ? connection.request(path, options)
        : { kind: 'network', message: 'nothing is written: the Lease is not renewed' },
  });
}
