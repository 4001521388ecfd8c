import { Counter, Histogram, type Registry } from 'prom-client';

const SECONDS_BUCKETS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

export interface OutboundMetrics {
  /** Counts one attempt; `code` is the status, or `failed` when no answer came. */
  observe(destination: string, method: string, code: string, seconds: number): void;
}

/** The metrics of outbound HTTP, on an injected registry. */
export function createOutboundMetrics(registry: Registry): OutboundMetrics {
  const requests = new Counter({
    name: 'meterfeed_outbound_requests_total',
    help: 'HTTP requests to the outside by destination, method and status ("failed" without an answer)',
    labelNames: ['destination', 'method', 'code'],
    registers: [registry],
  });
  const seconds = new Histogram({
    name: 'meterfeed_outbound_request_seconds',
    help: 'Duration of HTTP requests to the outside by destination',
    labelNames: ['destination'],
    buckets: SECONDS_BUCKETS,
    registers: [registry],
  });
  return {
    observe: (destination, method, code, duration) => {
      requests.inc({ destination, method, code });
      seconds.observe({ destination }, duration);
    },
  };
}
