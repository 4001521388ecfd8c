import type { Connection } from '../kubernetes/connection.ts';
import type { RequestFailure } from '../kubernetes/outcome.ts';

const UNAUTHORIZED = 401;

/**
 * The same connection, which tells of answers that a newer kubeconfig may mend: a credential that is
 * not accepted any more, and a server that cannot be reached where it was.
 */
export function alertConnection(connection: Connection, alert: () => void): Connection {
  function heed<T extends { readonly kind: 'ok' } | RequestFailure>(
    outcome: T,
    signal: AbortSignal | undefined,
  ): T {
    const refused = outcome.kind === 'status' && outcome.code === UNAUTHORIZED;
    const cut = outcome.kind === 'network' && signal?.aborted !== true;
    if (refused || cut) alert();
    return outcome;
  }
  return {
    kubeConfig: connection.kubeConfig,
    client: (type) => connection.client(type),
    request: async (path, options) =>
      heed(await connection.request(path, options), options?.signal),
    bytes: async (path, options) => heed(await connection.bytes(path, options), options.signal),
    stream: async (path, options) => heed(await connection.stream(path, options), options.signal),
    close: () => connection.close(),
  };
}
