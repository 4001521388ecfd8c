import type { Customers, Destination } from '../../../operator/destinations/destination.ts';
import { encodeEvent } from '../../../operator/model/event.ts';
import { override } from '../../../operator/model/override.ts';
import { kafkaSettings } from '../../kafka/load.ts';
import type { FaultDestination } from '../fault-destination.ts';

/** Real time. Shorter than electing a leader takes, so that batches are also given up and sent anew. */
const PATIENCE_MS = 3_000;

/** The real destination, which writes to a topic of the brokers that the suite runs. */
export const KAFKA: FaultDestination = {
  settings: (url) => {
    const { searchParams } = new URL(url);
    const topic = searchParams.get('topic') ?? '';
    return kafkaSettings(searchParams.getAll('broker'), { topic });
  },
  contentOf: encodeEvent,
  adapt: impatient,
};

/** The address of a topic: where its weather is ordered, its name, and the brokers to ask. */
export function kafkaAddress(control: string, topic: string, brokers: readonly string[]): string {
  const address = new URL(control);
  address.searchParams.set('topic', topic);
  for (const broker of brokers) address.searchParams.append('broker', broker);
  return address.href;
}

function impatient(real: Destination): Destination {
  const soon = (signal: AbortSignal): AbortSignal =>
    AbortSignal.any([signal, AbortSignal.timeout(PATIENCE_MS)]);
  const { customers } = real;
  return override<Destination>(real, {
    bootstrap: (catalog, signal) => real.bootstrap(catalog, soon(signal)),
    customers:
      customers &&
      override<Customers>(customers, {
        provision: (tenant, signal) => customers.provision(tenant, soon(signal)),
      }),
    send: (events, signal) => real.send(events, soon(signal)),
  });
}
