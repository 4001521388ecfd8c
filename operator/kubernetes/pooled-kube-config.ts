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

/** Generated client calls have no timeout of their own, so the pool has one. */
const RESPONSE_TIMEOUT_MS = 15_000;
const KEEP_ALIVE_MS = 30_000;
const REQUEST_CONNECTIONS = 64;
/** A page of 500 pods is about 2 MB; no answer to our requests comes near this. */
const MAX_RESPONSE_BYTES = 64 * 1024 * 1024;

/** Limits for an API server that is not trusted. */
export interface ConnectionLimits {
  /** Resolves host names, and may refuse addresses. */
  readonly lookup: LookupFunction;
  /** Milliseconds to establish a connection, TLS included. */
  readonly connectTimeoutMs: number;
  /** Sockets for ordinary requests. */
  readonly requestConnections: number;
  /** Sockets for watches. */
  readonly streamConnections: number;
  /** Maximum size of one ordinary answer. */
  readonly responseBytes: number;
  /** Maximum size of one answer that is parsed at once, which blocks all other work. */
  readonly parsedBytes: number;
  /** Maximum characters of one watch event. */
  readonly lineLength: number;
}

/** Connections to one API server under one set of certificates. */
interface ConnectionPools {
  /** Limited pool for ordinary requests. */
  readonly requests: Dispatcher;
  /** Unlimited pool for watches: each occupies a connection, so a limited pool would fill up. */
  readonly streams: Dispatcher;
}

/**
 * A kubeconfig whose typed calls, raw calls and watches share connection pools; the client library
 * opens a new connection for every call. The pools are rebuilt only when the CA or client
 * certificate changes. HTTP/1.1 only: Node's HTTP/2 has shown a memory leak under long watches.
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

  /** Called for every request. Returns "none", so that the library builds no dispatcher. */
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

  /** Closes every connection, streams included, and resolves when the sockets are closed. */
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
    // Running requests on the old certificates may finish.
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

/** The library's TLS options without undefined values, as undici's stricter type requires. */
function definedOnly(options: ConnectionOptions): buildConnector.BuildOptions {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}
