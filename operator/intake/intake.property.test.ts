import {
  array,
  assert,
  asyncProperty,
  constant,
  constantFrom,
  integer,
  nat,
  oneof,
  record,
  type Arbitrary,
} from 'fast-check';
import { expect, test } from 'vitest';
import type { Ledger } from '../ledger/ledger.ts';
import { openTestLedger } from '../ledger/testing/level-ledger.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { scratchDirectory } from '../ledger/testing/scratch.ts';
import { seriesOf } from './entry.ts';
import type { ReportedRequest } from './reported-request.ts';
import { HOUR, IntakeWorld } from './testing/intake-world.ts';
import type { Fate } from './testing/mortal-ledger.ts';

/**
 * Request i uses 4^i tokens. So each digit to the base 4 of a total says how often a request
 * counts.
 */
const REQUESTS = 24;
const MINUTE = 60_000;

type Step =
  | {
      readonly kind: 'send';
      readonly bodies: readonly (readonly number[])[];
      readonly fates: readonly Fate[];
    }
  | { readonly kind: 'close'; readonly fates: readonly Fate[] }
  | { readonly kind: 'pass'; readonly minutes: number }
  | { readonly kind: 'set back'; readonly minutes: number }
  | { readonly kind: 'settings'; readonly windowMs: number; readonly lateForMs: number }
  | { readonly kind: 'restart' };

const fates = array(
  constantFrom<Fate>('stored', 'stored', 'lost', 'unknown', 'killed-before', 'killed-after'),
  { maxLength: 3 },
);
const body = array(nat(REQUESTS - 1), { minLength: 1, maxLength: 6 });
const step: Arbitrary<Step> = oneof(
  {
    weight: 6,
    arbitrary: record({
      kind: constant('send' as const),
      bodies: array(body, { minLength: 1, maxLength: 3 }),
      fates,
    }),
  },
  { weight: 3, arbitrary: record({ kind: constant('close' as const), fates }) },
  {
    weight: 4,
    arbitrary: record({
      kind: constant('pass' as const),
      minutes: integer({ min: 1, max: 100 }),
    }),
  },
  {
    weight: 1,
    arbitrary: record({
      kind: constant('set back' as const),
      minutes: integer({ min: 1, max: 90 }),
    }),
  },
  {
    weight: 1,
    arbitrary: record({
      kind: constant('settings' as const),
      windowMs: constantFrom(HOUR / 4, HOUR, 2 * HOUR),
      lateForMs: constantFrom(HOUR, 2 * HOUR, 24 * HOUR),
    }),
  },
  { weight: 1, arbitrary: constant({ kind: 'restart' as const }) },
);
const history = record({
  /** Minutes from the first sending of each request back to its time; negative is ahead. */
  ages: array(integer({ min: -4, max: 110 }), { minLength: REQUESTS, maxLength: REQUESTS }),
  steps: array(step, { maxLength: 40 }),
});
type History = typeof history extends Arbitrary<infer T> ? T : never;

test('no kill, repeat or change of settings makes a request count twice or not at all', async () => {
  await assert(
    asyncProperty(history, async (one) => {
      const ledger = createMemoryLedger();
      await live(one, ledger, async () => ledger);
    }),
    { numRuns: 150 },
  );
}, 120_000);

test('the same holds when the ledger is closed and opened on disk', async () => {
  await assert(
    asyncProperty(history, async (one) => {
      const { path, remove } = await scratchDirectory();
      let ledger = await openTestLedger(path);
      await live(one, ledger, async () => {
        await ledger.close();
        ledger = await openTestLedger(path);
        return ledger;
      });
      await ledger.close();
      await remove();
    }),
    { numRuns: 8 },
  );
}, 120_000);

async function live(
  { ages, steps }: History,
  first: Ledger,
  reopen: () => Promise<Ledger>,
): Promise<void> {
  const world = new IntakeWorld(first);
  const model = new Model(world, ages);
  await world.begin();
  for (const one of steps) {
    if (one.kind === 'pass') world.clock.pass(one.minutes * MINUTE);
    if (one.kind === 'set back') world.clock.set(world.clock.now() - one.minutes * MINUTE);
    if (one.kind === 'settings')
      Object.assign(world, { windowMs: one.windowMs, lateForMs: one.lateForMs });
    if (one.kind === 'send') {
      world.mortal.meet(one.fates);
      await Promise.all(one.bodies.map((indices) => model.send(indices)));
    }
    if (one.kind === 'close') {
      world.mortal.meet(one.fates);
      model.isClosing = (await world.intake.closeDue()) !== undefined;
    }
    if (one.kind === 'restart' || world.mortal.isDead) {
      await world.restart(await reopen());
      model.isClosing = false;
    }
    world.mortal.meet([]);
    expect(await model.problems()).toEqual([]);
  }
  world.clock.pass(26 * HOUR);
  expect(await world.intake.closeDue()).toBeUndefined();
  expect(await world.intake.closeDue()).toBeUndefined();
  expect(world.intake.stats().openSums).toBe(0);
  model.isClosing = false;
  expect(await model.problems()).toEqual([]);
}

/** What the senders know. */
class Model {
  /** A closing may be written, while its sums still count as open. */
  isClosing = false;
  readonly #world: IntakeWorld;
  readonly #ages: readonly number[];
  readonly #times = new Map<number, number>();
  readonly #acknowledged = new Set<number>();
  readonly #uncertain = new Set<number>();

  constructor(world: IntakeWorld, ages: readonly number[]) {
    this.#world = world;
    this.#ages = ages;
  }

  async send(indices: readonly number[]): Promise<void> {
    const requests = indices.map((index) => this.#request(index));
    const outcome = await this.#world.intake.accept(requests, `gateway-${indices.length % 2}`);
    for (const [position, index] of indices.entries()) {
      if (outcome.kind === 'failed') this.#uncertain.add(index);
      else if (outcome.receptions[position]?.kind !== 'refused') this.#acknowledged.add(index);
    }
  }

  /** What is wrong with the events and the open sums; empty if nothing is. */
  async problems(): Promise<readonly string[]> {
    const problems: string[] = [];
    const events = await this.#world.events();
    const inTime = events.filter(({ id }) => id.startsWith('svc1_'));
    const places = inTime.map(
      (event) =>
        `${event.tenant} ${seriesOf({ dimensions: {}, ...event })} ${event.window_start} ${event.window_end}`,
    );
    if (new Set(places).size < places.length) problems.push('two events of a series in a window');
    if (new Set(events.map(({ id }) => id)).size < events.length) problems.push('one id twice');
    const open = ['acme', 'umbrella', 'stranger'].flatMap((tenant) =>
      this.#world.intake.openSums(tenant).map(({ nanos }) => nanos / 1_000_000_000n),
    );
    const closed = events.map(({ quantity }) => BigInt(quantity));
    const counted = this.isClosing ? closed : [...closed, ...open];
    const total = counted.reduce((sum, quantity) => sum + quantity, 0n);
    for (let index = 0; index < REQUESTS; index++) {
      const times = Number((total >> BigInt(2 * index)) & 3n);
      const isUncertain = this.isClosing || !this.#acknowledged.has(index);
      const least = isUncertain ? 0 : 1;
      const most = this.#acknowledged.has(index) || this.#uncertain.has(index) ? 1 : 0;
      if (times < least || times > most) problems.push(`request ${index} counts ${times} times`);
    }
    return problems;
  }

  #request(index: number): ReportedRequest {
    const age = (this.#ages[index] ?? 0) * MINUTE;
    const at = this.#times.get(index) ?? this.#world.clock.now() - age;
    this.#times.set(index, at);
    const tenant = ['acme', 'umbrella', 'stranger'][index % 3] ?? '';
    const half = 4n ** BigInt(index) / 2n;
    const quantities = [half, 4n ** BigInt(index) - half].map((quantity, kind) => ({
      metric: 'tenant_inference_tokens',
      dimensions: { model: `m${index % 2}`, token_type: kind === 0 ? 'input' : 'output' },
      quantity: String(quantity),
    }));
    const id = `${index}`;
    return {
      key: `key-${index}`,
      source: 's',
      id,
      subject: `user-${index}`,
      tenant,
      at,
      quantities,
    };
  }
}
