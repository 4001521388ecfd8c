import { Gauge, type Registry } from 'prom-client';
import type { DestinationStatusView } from '../http/views.ts';
import { createLabelLimit } from '../telemetry/registry.ts';

type Watched = Pick<DestinationStatusView, 'name' | 'deadLetters' | 'parked' | 'held'>;

/** What is wrong with destinations, as metrics to be alerted on: read when they are scraped. No tenant is a label. */
export function createDestinationMetrics(registry: Registry, list: () => readonly Watched[]): void {
  const label = createLabelLimit();
  const gauge = (name: string, help: string, value: (status: Watched) => number): void => {
    const metric: Gauge<'destination'> = new Gauge({
      name,
      help,
      labelNames: ['destination'],
      registers: [registry],
      collect: () => {
        metric.reset();
        for (const status of list()) metric.set({ destination: label(status.name) }, value(status));
      },
    });
  };
  gauge(
    'meterfeed_destination_dead_letters',
    'Events that the destination refused for good, until they are replayed or discarded.',
    ({ deadLetters }) => deadLetters,
  );
  gauge(
    'meterfeed_destination_parked_events',
    'Events that wait until the destination serves their tenant.',
    ({ parked }) => parked,
  );
  gauge(
    'meterfeed_destination_held',
    '1 while nothing is sent until an operator acts.',
    ({ held }) => Number(held !== undefined),
  );
}
