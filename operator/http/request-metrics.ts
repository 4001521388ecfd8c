import type { RequestHandler } from 'express';
import { Histogram, type Registry } from 'prom-client';

/** From a cached answer to a long export. */
const BUCKETS_SECONDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60];

/** Names the path template of a request for the metrics; a raw path would open a series per client whim. */
export function labelRoute(template: string): RequestHandler {
  return (_request, response, next) => {
    response.locals['route'] = template;
    next();
  };
}

/** `meterfeed_http_request_duration_seconds` by method, path template and status. */
export function createRequestMetrics(metrics: Registry): RequestHandler {
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

const KNOWN_METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']);
