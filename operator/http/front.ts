import type { RequestListener, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Registry } from 'prom-client';
import type { HttpSettings } from '../settings/settings.ts';
import type { Logger } from '../telemetry/logger.ts';
import { type HttpLimits, probeLimits } from './limits.ts';
import { createRefusedConnections, Listener } from './listener.ts';

/** Where the server listens, with the ports that the system chose. */
export interface ListenedAddresses {
  readonly main: AddressInfo;
  readonly probe?: AddressInfo;
}

/** What answers at the two addresses of a process. */
export interface Answering {
  readonly main: RequestListener;
  readonly probe: RequestListener;
}

/** LISTEN_ADDR and PROBE_ADDR of a process, for as long as it runs; what answers there may change meanwhile. */
export class HttpFront {
  readonly #logger: Logger;
  readonly #limits: HttpLimits;
  /** Answers while nothing else does. */
  readonly #idle: Answering;
  readonly #main: Listener;
  readonly #probe: Listener;
  #answering: Answering;
  /** Responses under way of what {@link serve} was called with last. */
  #open: ReadonlySet<ServerResponse> = new Set();
  #listened: Promise<ListenedAddresses> | undefined;

  constructor(metrics: Registry, logger: Logger, limits: HttpLimits, idle: Answering) {
    this.#logger = logger;
    this.#limits = limits;
    this.#idle = idle;
    this.#answering = idle;
    const refused = createRefusedConnections(metrics);
    this.#main = new Listener(
      'LISTEN_ADDR',
      limits,
      (...request) => this.#answering.main(...request),
      refused,
    );
    this.#probe = new Listener(
      'PROBE_ADDR',
      probeLimits(limits),
      (...request) => this.#answering.probe(...request),
      refused,
    );
  }

  /** Binds the addresses with the first call; rejects when it cannot. */
  listen(http: HttpSettings): Promise<ListenedAddresses> {
    this.#listened ??= this.#bind(http);
    return this.#listened;
  }

  async #bind(http: HttpSettings): Promise<ListenedAddresses> {
    // First, so that nothing that reaches the main address can keep the kubelet from it.
    const probe = http.probe === undefined ? undefined : await this.#probe.listen(http.probe);
    try {
      const main = await this.#main.listen(http);
      this.#logger.info('[http] listening', {
        address: main.address,
        port: main.port,
        probePort: probe?.port,
      });
      return { main, probe };
    } catch (error) {
      await this.#probe.close();
      throw error;
    }
  }

  /** Answers with `next` from now on, until {@link leave}. */
  serve(next: Answering): void {
    const open = new Set<ServerResponse>();
    const counted =
      (handle: RequestListener): RequestListener =>
      (request, response) => {
        open.add(response);
        response.setMaxListeners(response.getMaxListeners() + 1);
        response.once('close', () => open.delete(response));
        handle(request, response);
      };
    this.#open = open;
    this.#answering = { main: counted(next.main), probe: counted(next.probe) };
  }

  /**
   * Ends what {@link serve} began: new requests get what answers while nothing else does. Resolves when requests under way
   * are over, or were cut after a while.
   */
  async leave(): Promise<void> {
    const open = [...this.#open];
    this.#answering = this.#idle;
    const cut = setTimeout(() => {
      for (const response of open) response.destroy();
    }, this.#limits.stopGraceMs);
    await Promise.all(
      open.map((response) => new Promise((resolve) => response.once('close', resolve))),
    );
    clearTimeout(cut);
  }

  /** Accepts nothing new, lets requests under way finish for a while, then cuts what is left. */
  async close(): Promise<void> {
    await this.#main.close();
    // Last, so that the kubelet finds the process alive while requests under way finish.
    await this.#probe.close();
  }
}
