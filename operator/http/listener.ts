import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo, ListenOptions, Socket } from 'node:net';
import { Counter, type Registry } from 'prom-client';
import type { ListenAddress } from '../settings/parsers/hosts.ts';
import { errorText } from '../model/error-text.ts';
import { isRecord } from '../model/is-record.ts';
import type { HttpLimits } from './limits.ts';
import { refusePipelining } from './pipelining.ts';

/** How often idle connections are closed while stopping. */
const IDLE_SWEEP_MS = 20;
/**
 * Listening sockets of one port. Node accepts one connection from each socket per tick of its event
 * loop (libuv, `uv__server_io`). With one socket, a client with many queued connections would make
 * everyone else wait as many ticks.
 */
const SOCKETS = 32;

/** Counts a connection that was closed without an answer, by the limit that it exceeded. */
export type RefusedConnections = (reason: 'address' | 'all' | 'pipelining') => void;

export function createRefusedConnections(metrics: Registry): RefusedConnections {
  const counter = new Counter({
    name: 'meterfeed_http_refused_connections_total',
    help: 'Connections closed because their address (address) or all together (all) had too many, or because requests came without waiting for answers (pipelining)',
    labelNames: ['reason'],
    registers: [metrics],
  });
  return (reason) => counter.inc({ reason });
}

/** Serves HTTP at one address and limits the connections to it. */
export class Listener {
  /** The first server binds the address; the others share its port. */
  readonly #servers: readonly Server[];
  /** The variable with the address, for the error when binding fails. */
  readonly #variable: string;
  readonly #limits: HttpLimits;
  readonly #handle: RequestListener;
  readonly #refused: RefusedConnections;
  readonly #connections = new Map<string, number>();
  #open = 0;

  constructor(
    variable: string,
    limits: HttpLimits,
    handle: RequestListener,
    refused: RefusedConnections,
  ) {
    this.#variable = variable;
    this.#limits = limits;
    this.#handle = handle;
    this.#refused = refused;
    this.#servers = Array.from({ length: SOCKETS }, () => this.#createServer());
  }

  /** Binds the address; rejects when it cannot. */
  async listen({ host, port }: ListenAddress): Promise<AddressInfo> {
    const [first, ...others] = this.#servers;
    if (first === undefined) throw new Error('no socket to listen with');
    const place = host === '' ? {} : { host };
    try {
      // Sockets that share a port do not see each other. Only an exclusive socket finds out that
      // another program has the port.
      if (port !== 0) await closed((await bind(this.#createServer(), { ...place, port })).server);
      const main = await bindShared(first, { ...place, port });
      const shared = { ...place, port: main.address.port };
      if (main.isShared) await Promise.all(others.map((server) => bindShared(server, shared)));
      return main.address;
    } catch (error) {
      await this.close();
      const where = `${this.#variable}: "${host}:${port}"`;
      throw new Error(`cannot listen: ${where}: ${errorText(error)}`, { cause: error });
    }
  }

  /** Accepts no new requests, waits up to `stopGraceMs` for those in progress, then cuts them. */
  async close(): Promise<void> {
    const servers = this.#servers.filter(({ listening }) => listening);
    if (servers.length === 0) return;
    const all = Promise.all(servers.map(closed));
    const { stopGraceMs } = this.#limits;
    // A connection becomes idle when its request is done, so this repeats.
    const sweep = setInterval(() => {
      for (const server of servers) server.closeIdleConnections();
    }, IDLE_SWEEP_MS);
    const cut = setTimeout(() => {
      for (const server of servers) server.closeAllConnections();
    }, stopGraceMs);
    await all;
    clearInterval(sweep);
    clearTimeout(cut);
  }

  #createServer(): Server {
    const limits = this.#limits;
    const server = createServer({
      headersTimeout: limits.headersTimeoutMs,
      requestTimeout: limits.requestTimeoutMs,
      connectionsCheckingInterval: limits.connectionsCheckingIntervalMs,
      keepAliveTimeout: limits.keepAliveTimeoutMs,
      maxHeaderSize: limits.maxHeaderBytes,
    });
    server.timeout = limits.idleTimeoutMs;
    server.on('connection', (socket) => this.#bound(socket));
    server.on('request', this.#handle);
    return server;
  }

  /** Closes the connection when its address, or all addresses together, have reached the limit. */
  #bound(socket: Socket): void {
    const address = socket.remoteAddress?.replace(/^::ffff:/, '') ?? '';
    const open = this.#connections.get(address) ?? 0;
    const over = open >= this.#limits.maxConnectionsPerAddress ? 'address' : undefined;
    const reason = this.#open >= this.#limits.maxConnections ? 'all' : over;
    if (reason !== undefined) {
      this.#refused(reason);
      socket.destroy();
      return;
    }
    this.#open += 1;
    this.#connections.set(address, open + 1);
    refusePipelining(socket, () => this.#refused('pipelining'));
    socket.once('close', () => {
      this.#open -= 1;
      const left = (this.#connections.get(address) ?? 1) - 1;
      if (left === 0) this.#connections.delete(address);
      else this.#connections.set(address, left);
    });
  }
}

interface Bound {
  readonly server: Server;
  readonly address: AddressInfo;
}

function bind(server: Server, options: ListenOptions): Promise<Bound> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(options, () => {
      server.off('error', reject);
      const address = server.address();
      if (address === null || typeof address === 'string') reject(new Error('not a TCP address'));
      else resolve({ server, address });
    });
  });
}

function closed(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
  });
}

/** Binds a port that other sockets may share; exclusively where the system cannot share ports. */
async function bindShared(
  server: Server,
  options: ListenOptions,
): Promise<Bound & { readonly isShared: boolean }> {
  try {
    return { ...(await bind(server, { ...options, reusePort: true })), isShared: true };
  } catch (error) {
    if (!isRecord(error) || error['code'] !== 'ENOTSUP') throw error;
    return { ...(await bind(server, options)), isShared: false };
  }
}
