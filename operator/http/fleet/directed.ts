import type { Request } from 'express';

/** Requests that the hub passed to one stream by `cluster`; its routes ignore the parameter. */
const directed = new WeakSet<Request>();

/** Marks a request as passed to one stream. Only the dispatch of a hub calls it. */
export function direct(request: Request): void {
  directed.add(request);
}

/** Whether the hub has already applied `cluster`. */
export function isDirected(request: Request): boolean {
  return directed.has(request);
}
