import { createHash } from 'node:crypto';
import type { AgentOptions } from 'node:https';
import type { LookupFunction } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import {
  type Cluster,
  type DispatcherOptions,
  KubeConfig,
  type RequestContext,
} from '@kubernetes/client-node';
import { Agent, type buildConnector, type Dispatcher, ProxyAgent } from 'undici';

/** Generated calls pass no deadline of their own, so the pool has one. */
const RESPONSE_TIMEOUT_MS = 15_000;
const KEEP_ALIVE_MS = 30_000;
const REQUEST_CONNECTIONS = 64;
/** A page of 500 pods is about 2 MB; anything near this is not an answer to one of our requests. */
const MAX_RESPONSE_BYTES = 64 * 1024 * 1024;

/** Bounds on what one API server may take up, and where its name may lead. */
export interface ConnectionLimits {
  /** Names are looked up with it. */
  readonly lookup: LookupFunction;
  /** Milliseconds until a connection stands, TLS included. */
  readonly connectTimeoutMs: number;
  /** Sockets of requests that end by themselves. */
  readonly requestConnections: number;
  /** Sockets of watches. */
  readonly streamConnections: number;
  /** Of one answer that ends by itself. */
  readonly responseBytes: number;
  /** Of one that is parsed in one go, so that everybody else waits for it. */
  readonly parsedBytes: number;
  /** Of one event of a watch, characters. */
  readonly lineLength: number;
}

/** Connections to one API server under one set of certificates. */
interface ConnectionPools {
  /** Bounded; every request that ends by itself. */
  readonly requests: Dispatcher;
  /** Unbounded, because each watch occupies its connection and a full pool would never drain. */
  readonly streams: Dispatcher;
}

/**
 * The client library opens a new connection for every call. This configuration makes typed calls,
 * raw calls and watches share pools, built again only when the CA or client certificate changes.
 * HTTP/1.1 only: Node's HTTP/2 has shown a memory leak under long watches.
 */
export class PooledKubeConfig extends KubeConfig {
  #wanted: DispatcherOptions = { type: 'none' };
  #fingerprint = '';
  #pools: ConnectionPools | undefined;
  readonly #retired = new Set<Promise<void>>();
  #closed = false;

  readonly #limits: ConnectionLimits | undefined;

  constructor(source: KubeConfig, limits?: ConnectionLimits) {
    super();
    this.#limits = limits;
    this.loadFromOptions({
      clusters: source.getClusters(),
      contexts: source.getContexts(),
      users: source.getUsers(),
      currentContext: source.getCurrentContext(),
    });
  }

  /** Called by the library for every request; says "none" to it so that it builds nothing itself. */
  override createDispatcherOptions(
    cluster: Cluster | null,
    agentOptions: AgentOptions,
  ): DispatcherOptions {
    this.#wanted = super.createDispatcherOptions(cluster, agentOptions);
    return { type: 'none' };
  }

  override async applySecurityAuthentication(context: RequestContext): Promise<void> {
    await super.applySecurityAuthentication(context);
    context.setDispatcher(this.#current().requests);
  }

  /** Pools for the certificates of the last {@link applySecurityAuthentication}. */
  pools(): ConnectionPools {
    return this.#current();
  }

  /** Cuts every connection, streams included, and resolves when the sockets are gone. */
  async close(): Promise<void> {
    this.#closed = true;
    const pools = this.#pools;
    this.#pools = undefined;
    if (pools !== undefined) this.#retire(pools, (pool) => pool.destroy());
    await Promise.all(this.#retired);
  }

  #current(): ConnectionPools {
    if (this.#closed) throw new Error('connection: closed');
    const fingerprint = fingerprintOf(this.#wanted);
    if (this.#pools !== undefined && fingerprint === this.#fingerprint) return this.#pools;
    // Requests under way on the old certificates may finish.
    if (this.#pools !== undefined) this.#retire(this.#pools, (pool) => pool.close());
    this.#fingerprint = fingerprint;
    this.#pools = createPools(this.#wanted, this.#limits);
    return this.#pools;
  }

  #retire(pools: ConnectionPools, end: (pool: Dispatcher) => Promise<void>): void {
    const ended = Promise.all([end(pools.requests), end(pools.streams)]).then(
      () => undefined,
      () => undefined,
    );
    this.#retired.add(ended);
    void ended.then(() => this.#retired.delete(ended));
  }
}

function fingerprintOf(options: DispatcherOptions): string {
  // Buffers (CA, certificate, key) serialise to their bytes.
  return createHash('sha256').update(JSON.stringify(options)).digest('hex');
}

function createPools(options: DispatcherOptions, limits?: ConnectionLimits): ConnectionPools {
  const connect: buildConnector.BuildOptions =
    limits === undefined
      ? {}
      : // The environment of the process may have switched the check off.
        { lookup: limits.lookup, timeout: limits.connectTimeoutMs, rejectUnauthorized: true };
  return {
    requests: createPool(options, connect, {
      connections: limits?.requestConnections ?? REQUEST_CONNECTIONS,
      headersTimeout: RESPONSE_TIMEOUT_MS,
      bodyTimeout: RESPONSE_TIMEOUT_MS,
      maxResponseSize: limits?.responseBytes ?? MAX_RESPONSE_BYTES,
    }),
    streams: createPool(options, connect, {
      connections: limits?.streamConnections,
      headersTimeout: RESPONSE_TIMEOUT_MS,
      bodyTimeout: 0,
    }),
  };
}

function createPool(
  options: DispatcherOptions,
  connect: buildConnector.BuildOptions,
  limits: Agent.Options,
): Dispatcher {
  const shared: Agent.Options = { ...limits, allowH2: false, keepAliveTimeout: KEEP_ALIVE_MS };
  switch (options.type) {
    case 'none':
      return new Agent({ ...shared, connect });
    case 'agent':
      return new Agent({ ...shared, connect: { ...definedOnly(options.connect), ...connect } });
    case 'proxy':
      return new ProxyAgent({
        ...shared,
        uri: options.uri,
        requestTls: definedOnly(options.requestTls),
      });
    default:
      throw new Error('connection: SOCKS proxies are not supported; use an HTTP proxy');
  }
}

/** The library's TLS options, for undici's stricter type: what is undefined is left out. */
function definedOnly(options: ConnectionOptions): buildConnector.BuildOptions {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}
