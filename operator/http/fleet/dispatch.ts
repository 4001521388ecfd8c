import { type RequestHandler, Router } from 'express';
import { quote } from '../../model/validate-event.ts';
import { badRequest, Problem } from '../problem.ts';
import type { Route } from '../route.ts';
import { direct } from './directed.ts';

/** The streams of a hub, with their routes. */
export interface Dispatch {
  /** The names of all streams. */
  readonly sources: () => readonly string[];
  /** The routes of a stream; undefined when no stream has the name. */
  readonly routesOf: (source: string) => readonly Route[] | undefined;
}

/**
 * The routes of a hub (docs/how-to/fleet.md#the-api-of-a-hub). A request goes to the first that
 * fits:
 *
 * 1. The stream that `cluster` names.
 * 2. `ofAll`, when the route has an answer for all streams together.
 * 3. An error with the reason.
 */
export function dispatched(ofAll: readonly Route[], streams: Dispatch): readonly Route[] {
  return ofAll.map((route) => ({ ...route, handlers: [handlerOf(route, streams)] }));
}

function handlerOf(route: Route, { sources, routesOf }: Dispatch): RequestHandler {
  const { method, path, hub } = route;
  if (hub === 'refused') {
    return () => {
      throw notOfAHub(`${method.toUpperCase()} ${path}`);
    };
  }
  const ofAll = chained(route.handlers);
  return (request, response, next) => {
    const requested = request.query['cluster'];
    const named = typeof requested === 'string' ? routesOf(requested) : undefined;
    const own = named?.find((one) => one.method === method && one.path === path);
    if (own !== undefined) {
      direct(request);
      return chained(own.handlers)(request, response, next);
    }
    if (hub === 'all') return ofAll(request, response, next);
    throw nameOne(requested, sources());
  };
}

function notOfAHub(what: string): Problem {
  return new Problem(404, `not available at a hub: ${what}: use the API of the cluster's operator`);
}

/** Returns a view that only the operator of a cluster has; throws 404 at a hub. */
export function ofOperator<T>(view: T | undefined): T {
  if (view === undefined) throw notOfAHub('this');
  return view;
}

function nameOne(requested: unknown, sources: readonly string[]): Problem {
  const what = typeof requested === 'string' ? quote(requested) : 'not given';
  const known = sources.length === 0 ? 'there is none yet' : `use one of ${sources.join(', ')}`;
  return badRequest(`this is about one stream: cluster: ${what}: ${known}`);
}

/** Runs handlers one after the other, as Express does those of a route. */
function chained(handlers: readonly RequestHandler[]): RequestHandler {
  // `mergeParams` gives the handlers the path parameters of the request.
  return Router({ mergeParams: true }).use(...handlers);
}
