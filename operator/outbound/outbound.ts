import { Counter, Histogram, type Registry } from 'prom-client';
import {
  type ClientMeans,
  type HttpClient,
  type HttpClientOptions,
  type Observe,
  PooledClient,
} from './http-client.ts';

const SECONDS_BUCKETS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

export interface Outbound {
  /**
   * Creates a client of one base URL with its own connections. Throws a TypeError if the URL is not
   * http or https.
   */
  client(options: HttpClientOptions): HttpClient;
}

export interface OutboundOptions extends Omit<ClientMeans, 'observe'> {
  readonly registry: Registry;
}

/** Creates the factory of all HTTP clients. */
export function createOutbound(options: OutboundOptions): Outbound {
  const observe = createOutboundMetrics(options.registry);
  return { client: (client) => new PooledClient(client, { ...options, observe }) };
}

function createOutboundMetrics(registry: Registry): Observe {
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
  return (destination, method, code, duration) => {
    requests.inc({ destination, method, code });
    seconds.observe({ destination }, duration);
  };
}
