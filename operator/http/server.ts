import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Registry } from 'prom-client';
import type { Ledger } from '../ledger/ledger.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { createApp } from './create-app.ts';
import { dashboardPage, dashboardRoutes, readAssets } from './dashboard/dashboard.ts';
import { createRateLimit, DEFAULT_LIMITS, type HttpLimits } from './limits.ts';
import { createRoutes } from './routes/routes.ts';
import { createSumming } from '../usage/summing.ts';
import type { Views } from './views.ts';

/** While stopping. */
const IDLE_SWEEP_MS = 20;

export interface HttpServerOptions {
  /** The operator's version, as `/api/v1/status` shows it. */
  readonly version: string;
  readonly views: Views;
  readonly ledger: Ledger;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Registry;
  /** Where sums of usage are kept (DATA_DIR/usage); without it every sum is made by reading the ledger. */
  readonly usageDirectory?: string;
  /** Other limits than {@link DEFAULT_LIMITS}, for tests and benches. */
  readonly limits?: Partial<HttpLimits>;
}

/** The HTTP API of the operator, docs/openapi.yaml. */
export interface HttpServer {
  /** Binds LISTEN_ADDR; rejects when it cannot. Aborting the signal stops the server as {@link close} does. */
  listen(signal: AbortSignal): Promise<AddressInfo>;
  /** Accepts nothing new, lets requests under way finish for a while, then cuts what is left. */
  close(): Promise<void>;
}

export function createHttpServer(options: HttpServerOptions): HttpServer {
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const { views, logger } = options;
  let stopped: Promise<void> | undefined;
  const summing = createSumming(options);
  const context = {
    ...options,
    totals: summing.totals,
    stopping: () => stopped !== undefined,
  };
  const rateLimit =
    limits.requestsPerSecond === undefined ? undefined : createRateLimit(limits.requestsPerSecond);
  const assets = readAssets();
  const routes = [...createRoutes(context, dashboardPage(assets)), ...dashboardRoutes(assets)];
  const app = createApp(routes, context, rateLimit?.middleware);
  const server = createBoundedServer(limits);
  server.on('request', app);

  const close = (): Promise<void> => {
    stopped ??= (async () => {
      await stop(server, limits.stopGraceMs);
      rateLimit?.close();
      await summing.close();
    })();
    return stopped;
  };
  return {
    listen: async (signal) => {
      const { http } = views.settings();
      warnOfOpenApi(logger, http.apiTokens.length, http.ingestTokens.length);
      const address = await bind(server, http.host, http.port);
      await summing.open();
      signal.addEventListener('abort', () => void close(), { once: true });
      if (signal.aborted) await close();
      logger.info('[http] listening', { address: address.address, port: address.port });
      return address;
    },
    close,
  };
}

function createBoundedServer(limits: HttpLimits): Server {
  const server = createServer({
    headersTimeout: limits.headersTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    connectionsCheckingInterval: limits.connectionsCheckingIntervalMs,
    keepAliveTimeout: limits.keepAliveTimeoutMs,
    maxHeaderSize: limits.maxHeaderBytes,
  });
  server.maxConnections = limits.maxConnections;
  server.timeout = limits.idleTimeoutMs;
  return server;
}

function bind(server: Server, host: string, port: number): Promise<AddressInfo> {
  return new Promise((resolve, reject) => {
    const refuse = (error: Error): void => {
      const where = `LISTEN_ADDR: "${host}:${port}"`;
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

async function stop(server: Server, graceMs: number): Promise<void> {
  if (!server.listening) return;
  const closed = new Promise<void>((resolve) => {
    server.close(() => resolve());
  });
  // A connection that has just finished its request is kept alive, and idle only from then on.
  const sweep = setInterval(() => server.closeIdleConnections(), IDLE_SWEEP_MS);
  const cut = setTimeout(() => server.closeAllConnections(), graceMs);
  await closed;
  clearInterval(sweep);
  clearTimeout(cut);
}

/** Logged at every start, because it is easily overlooked (docs/operations.md#access-to-the-api). */
function warnOfOpenApi(logger: Logger, apiTokens: number, ingestTokens: number): void {
  if (apiTokens === 0) {
    logger.warn(
      '[http] API_TOKEN is not set: everyone who reaches this address can read; changes are disabled',
    );
  }
  if (ingestTokens === 0) {
    logger.warn('[http] ingest is disabled: set INGEST_TOKEN (or API_TOKEN) to enable it');
  }
}
