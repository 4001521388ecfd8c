import { Gauge, type Registry } from 'prom-client';
import type { DestinationStatusView } from '../http/views.ts';
import { createLabelLimit } from '../telemetry/registry.ts';

type Watched = Pick<
  DestinationStatusView,
  'name' | 'deadLetters' | 'parked' | 'held' | 'lagSeconds' | 'backlog'
>;

/** Less is an ordinary wait. */
const BEHIND_SECONDS = 3_600;

/** What is wrong with destinations, as metrics to be alerted on: read when they are scraped. No tenant is a label. */
export function createDestinationMetrics(registry: Registry, list: () => readonly Watched[]): void {
  const label = createLabelLimit();
  const gauge = (
    name: string,
    help: string,
    value: (status: Watched) => number | undefined,
  ): void => {
    const metric: Gauge<'destination'> = new Gauge({
      name,
      help,
      labelNames: ['destination'],
      registers: [registry],
      collect: () => {
        metric.reset();
        for (const status of list()) {
          const found = value(status);
          if (found !== undefined) metric.set({ destination: label(status.name) }, found);
        }
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
  gauge(
    'meterfeed_destination_volume_full_seconds',
    'Until the volume of the ledger is full, of a destination that is more than an hour behind and stays so.',
    ({ lagSeconds, backlog }) =>
      lagSeconds < BEHIND_SECONDS || backlog?.fullInMs === undefined
        ? undefined
        : backlog.fullInMs / 1_000,
  );
}
