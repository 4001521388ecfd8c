import { Registry } from 'prom-client';
import {
  type CreateDestination,
  createDestinationRegistry,
} from '../../../operator/destinations/registry.ts';
import { silentLogger } from '../../../operator/ledger/testing/level-ledger.ts';
import type { HttpTimeouts } from '../../../operator/outbound/http-client.ts';
import { createOutbound, type Outbound } from '../../../operator/outbound/outbound.ts';
import { faultDestination } from '../destinations.ts';
import { TRUE_TIME_HEADER } from '../vendors/stand-in.ts';
import type { IdleClock } from './idle-clock.ts';
import type { LifeOrder } from './messages.ts';
import type { Mortal } from './mortal.ts';

/** Real milliseconds: the stand-ins answer in one or two, or never. */
const TIMEOUTS: Partial<HttpTimeouts> = { connect: 2_000, headers: 300, body: 300, total: 300 };

/** The real destinations, which may die at every call, on the real network. */
export function createDestinations(
  order: LifeOrder,
  mortal: Mortal,
  clock: IdleClock,
): { readonly create: CreateDestination; close(): Promise<void> } {
  const real = createOutbound({ registry: new Registry(), clock, userAgent: 'meterfeed/faults' });
  const closers: (() => Promise<void>)[] = [];
  const outbound: Outbound = {
    client: (options) => {
      const client = real.client({ ...options, timeouts: TIMEOUTS });
      closers.push(() => client.close());
      return {
        request: (request) => {
          const headers = { ...request.headers, [TRUE_TIME_HEADER]: String(clock.trueTime()) };
          return client.request({ ...request, headers });
        },
        close: () => client.close(),
      };
    },
  };
  // Time stands still while a destination is called, so that it must not wait for it to pass.
  const pacing = { ...clock, sleep: async () => undefined };
  const registry = createDestinationRegistry({ outbound, clock: pacing, logger: silentLogger });
  const urls = new Map<string, (typeof order.destinations)[number]>(
    order.destinations.map((destination) => [destination.name, destination]),
  );

  return {
    create: (settings) => {
      const outcome = registry(settings);
      const target = urls.get(settings.name);
      if (outcome.kind === 'invalid' || target === undefined) return outcome;
      closers.push(() => outcome.destination.close());
      const { adapt } = faultDestination(target.name);
      const adapted =
        adapt === undefined
          ? outcome.destination
          : adapt(outcome.destination, outbound.client({ name: 'asking', baseUrl: target.url }));
      return { kind: 'created', destination: mortal.destination(adapted) };
    },
    close: async () => {
      for (const close of closers) await close();
    },
  };
}
