import type { RequestListener, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Registry } from 'prom-client';
import type { HttpSettings } from '../settings/settings.ts';
import type { Logger } from '../telemetry/logger.ts';
import { type HttpLimits, probeLimits } from './limits.ts';
import { createRefusedConnections, Listener } from './listener.ts';

/** The bound addresses, with the ports that the system chose. */
export interface ListenedAddresses {
  readonly main: AddressInfo;
  readonly probe?: AddressInfo;
}

/** The request handlers of the two addresses of a process. */
export interface Answering {
  readonly main: RequestListener;
  readonly probe: RequestListener;
}

/**
 * Listens at LISTEN_ADDR and PROBE_ADDR for as long as the process runs. The handlers change when
 * the process becomes leader, and when it stops being leader.
 */
export class HttpFront {
  readonly #logger: Logger;
  readonly #limits: HttpLimits;
  /** The handlers before {@link serve} and after {@link leave}. */
  readonly #idle: Answering;
  readonly #main: Listener;
  readonly #probe: Listener;
  #answering: Answering;
  /** Responses in progress of the handlers that the last {@link serve} got. */
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

  /** Binds the addresses with the first call; rejects when that fails. */
  listen(http: HttpSettings): Promise<ListenedAddresses> {
    this.#listened ??= this.#bind(http);
    return this.#listened;
  }

  async #bind(http: HttpSettings): Promise<ListenedAddresses> {
    // First, so that load on the main address cannot keep the kubelet out.
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

  /** Answers new requests with `next` until {@link leave}. */
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
   * Ends {@link serve}: new requests get the idle handlers. Resolves when the requests in progress
   * are done, or were cut after `stopGraceMs`.
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

  /** Accepts no new requests, waits up to `stopGraceMs` for those in progress, then cuts them. */
  async close(): Promise<void> {
    await this.#main.close();
    // Last, so that the kubelet finds the process alive while requests in progress finish.
    await this.#probe.close();
  }
}
