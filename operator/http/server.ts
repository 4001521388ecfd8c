import { Registry } from 'prom-client';
import type { Logger } from '../telemetry/logger.ts';
import { lacksToken } from './access.ts';
import { createApp, createPlainApp, refusePath } from './create-app.ts';
import { dashboardPage, dashboardRoutes, type Page, readAssets } from './dashboard/dashboard.ts';
import { type Dispatch, dispatched } from './fleet/dispatch.ts';
import { HttpFront, type ListenedAddresses } from './front.ts';
import { createRateLimit, DEFAULT_LIMITS, type HttpLimits } from './limits.ts';
import { Portal } from './portal/portal.ts';
import { portalPageRoutes } from './portal/portal-page.ts';
import { probeRoutes } from './routes/health.ts';
import type { Route, RouteContext } from './route.ts';
import { createRoutes } from './routes/routes.ts';
import type { UsageTotals } from '../billing/usage/usage-totals.ts';
import { type Tokens, TokenSource } from './tokens.ts';

export interface HttpServerOptions
  extends Pick<RouteContext, 'version' | 'views' | 'ledger' | 'clock' | 'logger' | 'metrics'> {
  /**
   * Stored sums of usage. Without them, and while they are not open, the server computes every sum
   * from the ledger.
   */
  readonly totals?: () => UsageTotals | undefined;
  /** A hub's current streams. `ledger`, `totals` and `views` are those of all streams together. */
  readonly streams?: () => readonly ServedStream[];
  /** The process's addresses, which outlive this server. Without it the server binds its own. */
  readonly front?: HttpFront;
  /** Other limits than {@link DEFAULT_LIMITS}, for tests and benches. */
  readonly limits?: Partial<HttpLimits>;
}

/** A stream of a hub; the same object for as long as the stream exists. */
export interface ServedStream extends Pick<RouteContext, 'views' | 'ledger' | 'totals'> {
  /** CLUSTER_NAME. */
  readonly source: string;
}

/** Creates the HTTP server of the operator (docs/reference/openapi.yaml). */
export function createHttpServer(options: HttpServerOptions) {
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const { views, logger } = options;
  let stopped: Promise<void> | undefined;
  const closing = new AbortController();
  const { clock } = options;
  const tokens = new TokenSource(() => views.settings().http, clock, logger);
  const portal = new Portal({
    keys: () => tokens.current().portalKeys,
    identity: () => views.settings().identity,
    ledger: options.ledger,
    clock,
  });
  const context = {
    ...options,
    limits,
    portal,
    totals: options.totals ?? (() => undefined),
    stopping: () => stopped !== undefined,
  };
  const rateLimit =
    limits.requestsPerSecond === undefined ? undefined : createRateLimit(limits.requestsPerSecond);
  const assets = readAssets();
  const page = dashboardPage(assets, (request) => lacksToken(tokens.current(), request));
  const all = createRoutes(context, page);
  const { streams } = options;
  const routes = [
    ...(streams === undefined ? all : dispatched(all, dispatchTo(streams, context, page))),
    ...dashboardRoutes(assets),
    ...portalPageRoutes(context, assets),
  ];
  const answering = {
    main: createApp(routes, context, () => tokens.current(), rateLimit?.middleware),
    probe: createPlainApp(probeRoutes(context), context, refusePath),
  };
  const { metrics } = options;
  const front = options.front ?? new HttpFront(metrics, logger, limits, answering);

  /** Accepts no new requests, waits up to `stopGraceMs` for those in progress, then cuts them. */
  const close = (): Promise<void> => {
    closing.abort();
    stopped ??= (async () => {
      await (options.front === undefined ? front.close() : front.leave());
      rateLimit?.close();
    })();
    return stopped;
  };
  return {
    /**
     * Answers at LISTEN_ADDR, and at PROBE_ADDR where there is one; rejects when they cannot be
     * bound. Aborting the signal stops the server as `close` does.
     */
    listen: async (signal: AbortSignal): Promise<ListenedAddresses> => {
      const { http } = views.settings();
      await tokens.open();
      warnOfOpenApi(logger, tokens.current());
      const addresses = await front.listen(http);
      front.serve(answering);
      void tokens.follow(AbortSignal.any([signal, closing.signal]));
      signal.addEventListener('abort', () => void close(), { once: true });
      if (signal.aborted) await close();
      return addresses;
    },
    close,
    /** See {@link Portal.signStatement}. */
    signStatement: portal.signStatement.bind(portal),
  };
}

/**
 * Creates the routes of each stream with the first request to it. Their metrics are not exported:
 * the application of the hub counts all requests.
 */
function dispatchTo(
  streams: () => readonly ServedStream[],
  context: RouteContext,
  page: Page,
): Dispatch {
  const made = new WeakMap<ServedStream, readonly Route[]>();
  return {
    sources: () => streams().map(({ source }) => source),
    routesOf: (source) => {
      const stream = streams().find((one) => one.source === source);
      if (stream === undefined) return undefined;
      const { views, ledger, totals } = stream;
      const routes =
        made.get(stream) ??
        createRoutes({ ...context, views, ledger, totals, metrics: new Registry() }, page);
      made.set(stream, routes);
      return routes;
    },
  };
}

/**
 * Warns of an open API at every start, because it is easily overlooked
 * (docs/how-to/ingress-and-single-sign-on.md#access-to-the-api).
 */
function warnOfOpenApi(logger: Logger, { apiTokens, ingestTokens, portalKeys }: Tokens): void {
  if (apiTokens.length === 0 && portalKeys.length > 0) {
    logger.warn(
      '[http] API_TOKEN is not set, and the portal is on: only tenants can read, and no portal token can be created',
    );
  } else if (apiTokens.length === 0) {
    logger.warn(
      '[http] API_TOKEN is not set: everyone who reaches this address can read; changes are disabled',
    );
  }
  if (ingestTokens.length === 0) {
    logger.warn('[http] ingest is disabled: set INGEST_TOKEN (or API_TOKEN) to enable it');
  }
}
