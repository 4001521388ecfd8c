import { Counter, type Registry } from 'prom-client';
import { gaugesBy } from '../telemetry/gauges.ts';

export interface DeliveryMetrics {
  delivered(destination: string, events: number): void;
  retried(destination: string, events: number): void;
  rejected(destination: string, events: number): void;
  /** Removes the series of a destination that is gone. */
  remove(destination: string): void;
}

/**
 * Creates the metrics of delivery (docs/explanation/delivery.md#metrics) on an injected registry.
 * `lags` returns the current lag by destination.
 */
export function createDeliveryMetrics(
  registry: Registry,
  lags: () => ReadonlyMap<string, { readonly events: number; readonly seconds: number }>,
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
  const gauge = gaugesBy(registry, 'destination', lags);
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
