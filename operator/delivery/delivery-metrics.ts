import { Counter, Gauge, type Registry } from 'prom-client';

/** How far a destination is behind, read when metrics are scraped. */
export interface Lag {
  readonly events: number;
  readonly seconds: number;
}

export interface DeliveryMetrics {
  delivered(destination: string, events: number): void;
  retried(destination: string, events: number): void;
  rejected(destination: string, events: number): void;
  /** The destination is no more. */
  remove(destination: string): void;
}

/** The metrics of delivery (docs/delivery.md#metrics), on an injected registry. `lags` gives what is current. */
export function createDeliveryMetrics(
  registry: Registry,
  lags: () => ReadonlyMap<string, Lag>,
): DeliveryMetrics {
  const counter = (name: string, help: string): Counter<'destination'> =>
    new Counter({ name, help, labelNames: ['destination'], registers: [registry] });
  const delivered = counter(
    'meterfeed_destination_delivered_total',
    'Events that the destination accepted, or had already',
  );
  const retried = counter(
    'meterfeed_destination_retried_total',
    'Attempts to deliver an event that failed and are made again',
  );
  const rejected = counter(
    'meterfeed_destination_rejected_total',
    'Events that became dead letters',
  );
  const gauge = (name: string, help: string, value: (lag: Lag) => number): void => {
    const metric: Gauge<'destination'> = new Gauge({
      name,
      help,
      labelNames: ['destination'],
      registers: [registry],
      collect: () => {
        metric.reset();
        for (const [destination, lag] of lags()) metric.set({ destination }, value(lag));
      },
    });
  };
  gauge(
    'meterfeed_destination_lag_events',
    'Events in the ledger that the destination is still to get',
    ({ events }) => events,
  );
  gauge(
    'meterfeed_destination_lag_seconds',
    'Age of the oldest event that the destination is still to get, since the end of its window',
    ({ seconds }) => seconds,
  );
  return {
    delivered: (destination, events) => delivered.inc({ destination }, events),
    retried: (destination, events) => retried.inc({ destination }, events),
    rejected: (destination, events) => rejected.inc({ destination }, events),
    remove: (destination) => {
      for (const metric of [delivered, retried, rejected]) metric.remove({ destination });
    },
  };
}
