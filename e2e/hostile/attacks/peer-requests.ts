import { request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

/** What a stranger on the network can reach, and what he holds. */
export interface PeerMeans {
  readonly port: number;
  readonly probePort: number;
  /** An ingest token for the metric `tokens_used` of the tenant `stranger` alone. */
  readonly ingestToken: string;
  /** The same of the tenant `rival`. */
  readonly rivalIngestToken: string;
  /** Told of everything that comes back. */
  readonly answered: (text: string) => void;
  /** Told of money that is not what it was said to be. */
  readonly misbilled: (what: string) => void;
  readonly signal: AbortSignal;
}

/** Not the address that everybody else in the suite has. */
const FROM = '127.0.0.66';

/** One request of a peer. */
export interface Query {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** What came back, as much of it as came. */
export interface PeerAnswer {
  readonly status: number;
  readonly body: string;
}

/** One request, and its answer told; resolves when it is over, whatever came of it: undefined where there was no answer. */
export function query(
  means: PeerMeans,
  { method, path, headers, body }: Query,
): Promise<PeerAnswer | undefined> {
  return new Promise((resolve) => {
    let hasBegun = false;
    const over = (): void => {
      if (!hasBegun) resolve(undefined);
    };
    try {
      const requested = request(
        {
          host: '127.0.0.1',
          port: means.port,
          localAddress: FROM,
          agent: false,
          timeout: 4_000,
          signal: means.signal,
          method,
          path,
          headers: {
            ...headers,
            ...(method === 'GET' || body === ''
              ? {}
              : { 'content-length': Buffer.byteLength(body) }),
          },
        },
        (answer) => {
          hasBegun = true;
          const pieces: Buffer[] = [];
          answer.on('data', (chunk: Buffer) => void pieces.push(chunk));
          answer.once('close', () => {
            const text = Buffer.concat(pieces).toString();
            means.answered(JSON.stringify(answer.headers) + text);
            resolve({ status: answer.statusCode ?? 0, body: text });
          });
        },
      );
      requested.once('timeout', () => requested.destroy());
      requested.once('error', over);
      requested.once('close', over);
      requested.end(method === 'GET' ? undefined : body);
    } catch {
      over();
    }
  });
}

/** Does something again and again until the end, with a rest in between. */
export async function again(
  means: PeerMeans,
  restMs: number,
  act: () => Promise<unknown>,
): Promise<void> {
  while (!means.signal.aborted) {
    await act();
    await delay(restMs);
  }
}

/** Connections that stay open until the end, or for a while, each with something sent. */
export async function hold(
  means: PeerMeans,
  count: number,
  text: string,
  isProbe: boolean,
  forMs?: number,
): Promise<void> {
  const sockets: Socket[] = [];
  for (let index = 0; index < count; index += 1) {
    const port = isProbe ? means.probePort : means.port;
    const socket = connect({ host: '127.0.0.1', port, localAddress: FROM });
    socket.on('error', () => undefined);
    socket.on('data', (answer: Buffer) => means.answered(answer.toString('latin1')));
    if (text !== '') socket.write(text);
    sockets.push(socket);
  }
  await (forMs === undefined ? untilAborted(means.signal) : delay(forMs));
  for (const socket of sockets) socket.destroy();
}

/** Bodies that come byte by byte, until the end. */
export async function drip(means: PeerMeans): Promise<void> {
  const sockets = Array.from({ length: 30 }, () => {
    const socket = connect({ host: '127.0.0.1', port: means.port, localAddress: FROM });
    socket.on('error', () => undefined);
    socket.on('data', (answer: Buffer) => means.answered(answer.toString('latin1')));
    socket.write(
      `POST /api/v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${means.ingestToken}\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n`,
    );
    return socket;
  });
  await again(means, 100, async () => {
    for (const socket of sockets) if (!socket.destroyed) socket.write(' ');
  });
  for (const socket of sockets) socket.destroy();
}

function untilAborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
