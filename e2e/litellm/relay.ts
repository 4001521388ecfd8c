import { buffer } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { type LocalServer, startServer } from './http.ts';

export interface Relay extends LocalServer {
  /** Requests that came. */
  readonly requests: () => number;
  /** How often a request was sent again. */
  readonly repeats: () => number;
}

const PAUSE_MS = 200;

/**
 * Stands between LiteLLM, which sends each event once, and a meterfeed that is killed. It repeats
 * each request until meterfeed is there and answers, also when LiteLLM does not wait any longer.
 */
export async function startRelay(target: () => string): Promise<Relay> {
  const counts = { requests: 0, repeats: 0 };
  const deliver = async (url: string, init: RequestInit): Promise<Response> => {
    for (;;) {
      const response = await fetch(`${target()}${url}`, init).catch(() => undefined);
      await response?.arrayBuffer().catch(() => undefined);
      if (response !== undefined && response.status !== 429 && response.status < 500) {
        return response;
      }
      counts.repeats += 1;
      await delay(PAUSE_MS);
    }
  };
  const server = await startServer((request, response) => {
    counts.requests += 1;
    const { url = '/', method, headers } = request;
    const kept = { authorization: headers.authorization ?? '' };
    void buffer(request).then(async (body) => {
      const sent = { ...kept, 'content-type': headers['content-type'] ?? '' };
      const { status } = await deliver(url, { method, headers: sent, body });
      response.writeHead(status).end();
    });
  });
  return { ...server, requests: () => counts.requests, repeats: () => counts.repeats };
}
