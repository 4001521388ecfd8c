import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A server on a free port of 127.0.0.1. */
export interface LocalServer {
  /** `http://127.0.0.1:<port>` */
  readonly url: string;
  close(): Promise<void>;
}

/**
 * Never closes an idle connection: LiteLLM drops the event that it sends on one at that moment
 * (docs/how-to/ai-gateways.md#lost-events).
 */
export async function startServer(listener: RequestListener): Promise<LocalServer> {
  const server = createServer({ keepAliveTimeout: 0 }, listener);
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once('error', reject);
  server.listen(0, '127.0.0.1', resolve);
  await promise;
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    close: () =>
      new Promise((closed) => {
        server.close(() => closed());
        server.closeAllConnections();
      }),
  };
}
