import type { Request } from 'express';

/** Requests that were directed to one stream by `cluster`: its routes do not know the parameter. */
const directed = new WeakSet<Request>();

/** The routes of a stream answer the request from here on. Only the dispatch of a hub calls it. */
export function direct(request: Request): void {
  directed.add(request);
}

/** Whether `cluster` has been heeded already. */
export function isDirected(request: Request): boolean {
  return directed.has(request);
}
