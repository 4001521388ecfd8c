import express, { type Express, type RequestHandler } from 'express';
import helmet from 'helmet';
import { type Access, createAccess } from './access.ts';
import { createErrorHandler } from './error-handling.ts';
import { Problem } from './problem.ts';
import { createRequestMetrics, labelRoute } from './request-metrics.ts';
import type { Route, RouteContext } from './route.ts';

/** The dashboard is served from here and talks to here; nothing else is ever loaded (security D.19). */
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

/** The express application: every route behind metrics, headers, token, then rate limit, then body. */
export function createApp(
  routes: readonly Route[],
  context: RouteContext,
  rateLimit: RequestHandler | undefined,
): Express {
  const app = express();
  app.disable('x-powered-by').disable('etag').set('query parser', 'simple');
  app.set('case sensitive routing', true);
  app.use(createRequestMetrics(context.metrics));
  // TLS ends in front of the operator, where strict transport security belongs too.
  app.use(
    helmet({ contentSecurityPolicy: CONTENT_SECURITY_POLICY, strictTransportSecurity: false }),
  );
  app.use(noStore);
  const access = createAccess(() => context.views.settings().http);
  const limited = (kind: Access): RequestHandler[] =>
    rateLimit === undefined ? [access(kind)] : [access(kind), rateLimit];
  for (const route of routes) {
    app[route.method](
      expressPath(route.path),
      labelRoute(route.path),
      ...limited(route.access),
      ...route.handlers,
    );
  }
  // Below /api nothing, not even that a path does not exist, is told without a token (spec 4).
  app.use('/api', ...limited('read'));
  for (const [path, methods] of methodsByPath(routes)) {
    app.all(expressPath(path), labelRoute(path), refuseMethod(methods));
  }
  app.use(refusePath);
  app.use(createErrorHandler(context.logger));
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

const refusePath: RequestHandler = () => {
  throw new Problem(404, 'no such path: see / for the list of paths');
};
