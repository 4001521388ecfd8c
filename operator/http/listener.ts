import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { Counter, type Registry } from 'prom-client';
import type { ListenAddress } from '../config/parsers/hosts.ts';
import type { HttpLimits } from './limits.ts';
import { refusePipelining } from './pipelining.ts';

/** While stopping. */
const IDLE_SWEEP_MS = 20;

export interface ListenerOptions {
  /** The variable that names the address, for what is said when it cannot be bound. */
  readonly variable: string;
  readonly limits: HttpLimits;
  readonly handle: RequestListener;
  readonly refused: RefusedConnections;
}

/** Counts a connection that was closed without an answer, by the limit that it was over. */
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

/** One address that HTTP is served at, with bounds for the connections to it. */
export class Listener {
  readonly #server: Server;
  readonly #options: ListenerOptions;
  readonly #connections = new Map<string, number>();

  constructor(options: ListenerOptions) {
    const { limits, handle, refused } = options;
    this.#options = options;
    this.#server = createServer({
      headersTimeout: limits.headersTimeoutMs,
      requestTimeout: limits.requestTimeoutMs,
      connectionsCheckingInterval: limits.connectionsCheckingIntervalMs,
      keepAliveTimeout: limits.keepAliveTimeoutMs,
      maxHeaderSize: limits.maxHeaderBytes,
    });
    this.#server.maxConnections = limits.maxConnections;
    this.#server.timeout = limits.idleTimeoutMs;
    this.#server.on('drop', () => refused('all'));
    this.#server.on('connection', (socket) => this.#bound(socket));
    this.#server.on('request', handle);
  }

  /** Binds the address; rejects when it cannot. */
  listen({ host, port }: ListenAddress): Promise<AddressInfo> {
    const server = this.#server;
    return new Promise((resolve, reject) => {
      const refuse = (error: Error): void => {
        const where = `${this.#options.variable}: "${host}:${port}"`;
        reject(new Error(`cannot listen: ${where}: ${error.message}`, { cause: error }));
      };
      server.once('error', refuse);
      server.listen({ port, ...(host === '' ? {} : { host }) }, () => {
        server.off('error', refuse);
        const address = server.address();
        if (address === null || typeof address === 'string') reject(new Error('not a TCP address'));
        else resolve(address);
      });
    });
  }

  /** Accepts nothing new, lets requests under way finish for a while, then cuts what is left. */
  async close(): Promise<void> {
    const server = this.#server;
    if (!server.listening) return;
    const closed = new Promise<void>((resolve) => {
      server.close(() => resolve());
    });
    // A connection that has just finished its request is kept alive, and idle only from then on.
    const sweep = setInterval(() => server.closeIdleConnections(), IDLE_SWEEP_MS);
    const cut = setTimeout(() => server.closeAllConnections(), this.#options.limits.stopGraceMs);
    await closed;
    clearInterval(sweep);
    clearTimeout(cut);
  }

  /** Closes the connection when its address has as many as one may have. */
  #bound(socket: Socket): void {
    const address = socket.remoteAddress?.replace(/^::ffff:/, '') ?? '';
    const open = this.#connections.get(address) ?? 0;
    if (open >= this.#options.limits.maxConnectionsPerAddress) {
      this.#options.refused('address');
      socket.destroy();
      return;
    }
    this.#connections.set(address, open + 1);
    refusePipelining(socket, () => this.#options.refused('pipelining'));
    socket.once('close', () => {
      const left = (this.#connections.get(address) ?? 1) - 1;
      if (left === 0) this.#connections.delete(address);
      else this.#connections.set(address, left);
    });
  }
}
