import express, { type Express, type RequestHandler } from 'express';
import helmet from 'helmet';
import { Counter, Histogram, type Registry } from 'prom-client';
import {
  type Access,
  createAccess,
  isForGateways,
  type RefusedTokens,
  SECRET_PATH,
} from './access.ts';
import { ClientCounts, FAILURES_WINDOW_MS, MOST_FAILED_TOKENS } from './limits.ts';
import { createErrorHandler, Problem } from './problem.ts';
import type { Route, RouteContext } from './route.ts';
import type { TenantScope } from './scope.ts';
import type { Tokens } from './tokens.ts';

/** The dashboard loads only from this server, see docs/explanation/security.md#d-19. */
const CONTENT_SECURITY_POLICY = {
  useDefaults: false,
  directives: {
    defaultSrc: ["'none'"],
    scriptSrc: ["'self'"],
    styleSrc: ["'self'"],
    imgSrc: ["'self'"],
    connectSrc: ["'self'"],
    frameAncestors: ["'none'"],
    baseUri: ["'none'"],
    formAction: ["'none'"],
  },
};

/** The Express application. In order: metrics, headers, token, rate limit, body. */
export function createApp(
  routes: readonly Route[],
  context: RouteContext,
  tokens: () => Tokens,
  rateLimit: RequestHandler | undefined,
): Express {
  const app = express();
  app.disable('x-powered-by').disable('etag').set('query parser', 'simple');
  app.set('case sensitive routing', true);
  app.use(createRequestMetrics(context.metrics));
  // TLS ends in front of the operator; strict transport security belongs there too.
  app.use(
    helmet({ contentSecurityPolicy: CONTENT_SECURITY_POLICY, strictTransportSecurity: false }),
  );
  app.use(noStore);
  const failures = new ClientCounts(context.clock, MOST_FAILED_TOKENS, FAILURES_WINDOW_MS);
  const access = createAccess({
    tokens,
    mayFail: (address) => failures.allow(address),
    refused: createRefusedTokens(context.metrics),
    checkSigned: (token) => context.portal.check(token),
  });
  // The routes of gateways limit the rate themselves, because they count events too.
  const limited = (kind: Access, tenantScope?: TenantScope): RequestHandler[] =>
    rateLimit === undefined || isForGateways(kind)
      ? [access(kind, tenantScope)]
      : [access(kind, tenantScope), rateLimit];
  for (const route of routes) {
    const { path: own } = route;
    for (const path of isForGateways(route.access) ? [own, SECRET_PATH + own] : [own]) {
      app[route.method](
        expressPath(path),
        labelRoute(path),
        ...limited(route.access, route.tenantScope),
        ...route.handlers,
      );
    }
  }
  // Below /api even the answer to an unknown path needs a token
  // (docs/how-to/ingress-and-single-sign-on.md#access-to-the-api).
  app.use('/api', ...limited('read'));
  for (const [path, methods] of methodsByPath(routes)) {
    // Without a route label: the metrics get one series a method, not one for each path.
    app.all(expressPath(path), refuseMethod(methods));
  }
  app.use(refusePath);
  app.use(createErrorHandler(context.logger, context.clock));
  return app;
}

/** An application of open routes, without request metrics. `others` answers all other requests. */
export function createPlainApp(
  routes: readonly Route[],
  context: Pick<RouteContext, 'logger' | 'clock'>,
  others: RequestHandler,
): Express {
  const app = express();
  app.disable('x-powered-by').disable('etag').set('query parser', 'simple');
  app.use(noStore);
  for (const route of routes) app[route.method](expressPath(route.path), ...route.handlers);
  app.use(others);
  app.use(createErrorHandler(context.logger, context.clock));
  return app;
}

function expressPath(path: string): string {
  return path.replaceAll(/\{(\w+)\}/g, ':$1');
}

function methodsByPath(routes: readonly Route[]): Map<string, string[]> {
  const methods = new Map<string, string[]>();
  for (const { path, method } of routes) {
    const allowed = method === 'get' ? ['GET', 'HEAD'] : [method.toUpperCase()];
    methods.set(path, [...(methods.get(path) ?? []), ...allowed]);
  }
  return methods;
}

const noStore: RequestHandler = (_request, response, next) => {
  response.set('Cache-Control', 'no-store');
  next();
};

function refuseMethod(methods: readonly string[]): RequestHandler {
  const allowed = methods.join(', ');
  return (request) => {
    const message = `method not allowed: ${request.method}: use ${allowed}`;
    throw new Problem(405, message, { Allow: allowed });
  };
}

/** Answers 404 for a path that does not exist. */
export const refusePath: RequestHandler = () => {
  throw new Problem(404, 'no such path: see / for the list of paths');
};

/** From a cached answer to a long export. */
const BUCKETS_SECONDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60];

/**
 * Labels the metrics of a request with its path template. Raw paths would let a client create any
 * number of series.
 */
function labelRoute(template: string): RequestHandler {
  return (_request, response, next) => {
    response.locals['route'] = template;
    next();
  };
}

/** `meterfeed_http_request_duration_seconds` by method, path template and status. */
function createRequestMetrics(metrics: Registry): RequestHandler {
  const duration = new Histogram({
    name: 'meterfeed_http_request_duration_seconds',
    help: 'Time from the headers of a request to the end of its answer',
    labelNames: ['method', 'route', 'status'],
    buckets: BUCKETS_SECONDS,
    registers: [metrics],
  });
  return (request, response, next) => {
    const started = performance.now();
    response.once('close', () => {
      const template: unknown = response.locals['route'];
      const route = typeof template === 'string' ? template : 'unmatched';
      const method = KNOWN_METHODS.has(request.method) ? request.method : 'other';
      // A client that went away before the answer is 499, as reverse proxies count it.
      const status = response.writableFinished ? String(response.statusCode) : '499';
      duration.observe({ method, route, status }, (performance.now() - started) / 1000);
    });
    next();
  };
}

function createRefusedTokens(metrics: Registry): RefusedTokens {
  const counter = new Counter({
    name: 'meterfeed_http_refused_tokens_total',
    help: 'Bearer tokens that were refused: unknown, expired or revoked, good elsewhere only, or unknown once too often',
    labelNames: ['reason'],
    registers: [metrics],
  });
  return (reason) => counter.inc({ reason });
}

const KNOWN_METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']);
