import { type HttpClient, type HttpOutcome, type HttpRequest, redactPath } from './http-client.ts';
import type { Outbound } from './outbound.ts';

/**
 * HTTP clients that send nothing while `mayAct` is false. Each request is checked, not each operation: a process that
 * was frozen in the middle of an operation of many requests sends none of those that are left.
 */
export function fencedOutbound(outbound: Outbound, mayAct: () => boolean): Outbound {
  return { client: (options) => new FencedClient(outbound.client(options), mayAct) };
}

class FencedClient implements HttpClient {
  readonly #client: HttpClient;
  readonly #mayAct: () => boolean;

  constructor(client: HttpClient, mayAct: () => boolean) {
    this.#client = client;
    this.#mayAct = mayAct;
  }

  async request(request: HttpRequest): Promise<HttpOutcome> {
    if (this.#mayAct()) return this.#client.request(request);
    const what = `HTTP ${request.method} ${redactPath(request.path)}`;
    const reason = `${what}: not sent: the Lease is not renewed`;
    return { kind: 'failed', reason, sent: false, permanent: false };
  }

  close(): Promise<void> {
    return this.#client.close();
  }
}
