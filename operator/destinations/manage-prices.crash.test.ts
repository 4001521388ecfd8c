import { expect, test } from 'vitest';
import { COLLECTOR_METRICS as METRICS } from '../model/catalog.ts';
import type { PriceBook } from '../model/price-book.ts';
import type { Destination, DestinationContext } from './destination.ts';
import { createLagoWorld } from './lago/testing/lago-world.ts';
import { createMetronomeWorld } from './metronome/testing/metronome-world.ts';
import { createStripeWorld } from './stripe/testing/stripe-world.ts';
import { createMortalOutbound } from './testing/mortal-outbound.ts';
import {
  bookFor,
  differencesOf,
  flatCharge,
  GPU,
  H100,
  manage,
  priceFor,
  thenFrom,
} from './testing/price-books.ts';

const SPOT = priceFor(GPU, { sku: 'l4' }, flatCharge('1.1'));
const LB = priceFor('tenant_lb_hours', {}, flatCharge('0.02'));
/** Before and after: a price becomes dearer, one is withdrawn, one is new. */
const BEFORE = bookFor([H100, SPOT]);
const AFTER = bookFor([
  thenFrom(H100, '2026-11-21', flatCharge('3')),
  thenFrom(SPOT, '2026-11-21'),
  LB,
]);
const YESTERDAY = '2026-11-20';

/** A billing system whose default plan is another process's as well. */
interface Estate {
  readonly context: DestinationContext;
  readonly ready: () => Promise<unknown>;
  readonly restart: () => Destination;
  /** Everything that a price stands in there. */
  readonly state: () => unknown;
  readonly close: () => Promise<void>;
}

/** Without ids and moments, and in an order that does not tell which was made first. */
function shapeOf(all: readonly object[]): readonly string[] {
  const text = (one: object): string =>
    JSON.stringify(one, (key, value: unknown) => (/id$|_id|created|lookup/.test(key) ? '' : value));
  return all.map(text).toSorted();
}

const ESTATES: Readonly<Record<string, () => Promise<Estate>>> = {
  lago: async () => {
    const world = await createLagoWorld();
    const state = (): unknown => {
      const { plans, metrics } = world.lago.state;
      const charges = [...plans.values()].flatMap((plan) => plan.charges);
      return shapeOf([...charges, ...metrics.values()]);
    };
    return { ...world, ready: world.bootstrap, state };
  },
  stripe: async () => {
    const world = await createStripeWorld();
    const state = (): unknown => {
      const { prices, meters } = world.stripe.state;
      return shapeOf(
        [...prices.values(), ...meters.values()].map((one) => ({ ...one, product: '' })),
      );
    };
    return { ...world, state };
  },
  metronome: async () => {
    const world = await createMetronomeWorld({ rateCard: 'standard' });
    const state = (): unknown => {
      const { rates, rateCards, products } = world.metronome.state;
      // A rate that is added twice takes the place of itself.
      return [...new Set(shapeOf(rates)), ...shapeOf([...rateCards, ...products])];
    };
    return { ...world, ready: () => world.bootstrap(), state };
  },
};

/** What another process finds after one has died so many awaits on its way, and whether it did die. */
async function liveOn(make: () => Promise<Estate>, book: PriceBook, awaits: number) {
  const estate = await make();
  try {
    await estate.ready();
    await manage(await bootstrapped(estate), BEFORE, YESTERDAY);
    const { outbound } = estate.context;
    const mortal = createMortalOutbound(outbound, awaits);
    Object.assign(estate.context, { outbound: mortal.outbound });
    const first = bootstrapped(estate).then((destination) => manage(destination, book));
    const end = await Promise.race([mortal.died, first.then(() => 'lived' as const)]);
    Object.assign(estate.context, { outbound });
    const next = await bootstrapped(estate);
    await manage(next, book);
    expect(await differencesOf(next, book)).toStrictEqual([]);
    const again = await manage(next, book);
    expect(again.changes).toStrictEqual([]);
    return { end, state: estate.state() };
  } finally {
    await estate.close();
  }
}

async function bootstrapped(estate: Estate): Promise<Destination> {
  const destination = estate.restart();
  const { signal } = new AbortController();
  const metrics = METRICS.filter(({ code }) => code === GPU || code === LB.metric);
  const outcome = await destination.bootstrap(metrics, signal);
  if (outcome.kind !== 'done') throw new Error(outcome.reason);
  return destination;
}

test.for(Object.entries(ESTATES))(
  'a process that dies while it makes the prices of %s leaves nothing twice',
  { timeout: 120_000 },
  async ([, make]) => {
    const whole = await liveOn(make, AFTER, Number.POSITIVE_INFINITY);
    expect(whole.end).toBe('lived');
    for (let awaits = 1; ; awaits += 1) {
      const { end, state } = await liveOn(make, AFTER, awaits);
      expect(state, `died at await ${awaits}`).toStrictEqual(whole.state);
      if (end === 'lived') break;
    }
  },
);
