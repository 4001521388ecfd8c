import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

/** A request as a {@link HttpTestServer} received it. */
export interface ReceivedRequest {
  readonly method: string;
  /** Path and query. */
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface HttpTestServer {
  readonly url: string;
  readonly port: number;
  /** Everything received, oldest first. */
  readonly requests: readonly ReceivedRequest[];
  close(): Promise<void>;
}

/** A test's answer. The socket is for tests that cut the connection instead. */
export type Responder = (
  request: ReceivedRequest,
  response: ServerResponse,
  socket: Socket,
) => void | Promise<void>;

/** A real HTTP server on a free port of 127.0.0.1, for tests. */
export async function startTestServer(answer: Responder): Promise<HttpTestServer> {
  const requests: ReceivedRequest[] = [];
  const server = createServer((incoming, response) => {
    const chunks: Buffer[] = [];
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
    incoming.on('end', () => {
      const { method = '', url = '', headers } = incoming;
      const request = { method, url, headers, body: Buffer.concat(chunks).toString('utf8') };
      requests.push(request);
      void answer(request, response, incoming.socket);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    requests,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
