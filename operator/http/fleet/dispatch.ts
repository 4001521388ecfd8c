import { type RequestHandler, Router } from 'express';
import { quote } from '../../model/validate-event.ts';
import { badRequest, Problem } from '../problem.ts';
import type { Route } from '../route.ts';
import { direct } from './directed.ts';

/** What answers for one stream, or for all. */
export interface Dispatch {
  /** The names of all streams. */
  readonly sources: () => readonly string[];
  /** The routes of a stream; undefined where there is none of the name. */
  readonly routesOf: (source: string) => readonly Route[] | undefined;
}

/** What is added up over all streams where none is named. */
const OF_ALL = new Set([
  '/',
  '/healthz',
  '/readyz',
  '/leaderz',
  '/metrics',
  '/api/v1/status',
  '/api/v1/fleet',
  '/api/v1/catalog',
  '/api/v1/usage',
  '/api/v1/costs',
  '/api/v1/months/{month}',
  '/api/v1/gaps',
  '/api/v1/tenants',
  '/api/v1/tenants/{tenant}',
  '/api/v1/destinations',
  '/api/v1/windows',
  '/api/v1/windows/{end}',
]);

/** What only the meter answers elsewhere, and a hub out of what that has told. */
const TOLD = new Set([
  'GET /api/v1/destinations',
  'GET /api/v1/gaps',
  'GET /api/v1/months/{month}',
  'GET /api/v1/reconcile',
  'GET /api/v1/status',
  'GET /api/v1/tenants',
  'GET /api/v1/tenants/{tenant}',
  'GET /api/v1/windows',
  'GET /api/v1/windows/{end}',
]);

/** Only the operator of a cluster can do it, though any of its replicas may. */
const OF_OPERATORS = new Set(['POST /api/v1/events']);

/**
 * The routes of a hub: each is answered by those of the stream that `cluster` names, by `ofAll` where that adds up, or
 * not at all, with the reason (docs/fleet.md#the-api-of-a-hub).
 */
export function dispatched(ofAll: readonly Route[], streams: Dispatch): readonly Route[] {
  return ofAll.map((route) => ({ ...route, handlers: [handlerOf(route, streams)] }));
}

function handlerOf(route: Route, { sources, routesOf }: Dispatch): RequestHandler {
  const { method, path } = route;
  if (isOfMeters(route)) {
    return () => {
      const mend = 'ask the operator of the cluster';
      throw new Problem(404, `not done by a hub: ${method.toUpperCase()} ${path}: ${mend}`);
    };
  }
  const ofAll = chained(route.handlers);
  return (request, response, next) => {
    const asked = request.query['cluster'];
    const named = typeof asked === 'string' ? routesOf(asked) : undefined;
    const own = named?.find((one) => one.method === method && one.path === path);
    if (own !== undefined) {
      direct(request);
      return chained(own.handlers)(request, response, next);
    }
    if (OF_ALL.has(path)) return ofAll(request, response, next);
    throw nameOne(asked, sources());
  };
}

function isOfMeters({ method, path, answeredBy }: Route): boolean {
  const operation = `${method.toUpperCase()} ${path}`;
  if (OF_OPERATORS.has(operation)) return true;
  return answeredBy === 'meter' && !TOLD.has(operation);
}

function nameOne(asked: unknown, sources: readonly string[]): Problem {
  const what = typeof asked === 'string' ? quote(asked) : 'not given';
  const known = sources.length === 0 ? 'there is none yet' : `use one of ${sources.join(', ')}`;
  return badRequest(`this is about one stream: cluster: ${what}: ${known}`);
}

/** Handlers that are run one after the other, as Express does those of a route. */
function chained(handlers: readonly RequestHandler[]): RequestHandler {
  // It sees the parameters of the path that the request came by.
  return Router({ mergeParams: true }).use(...handlers);
}
