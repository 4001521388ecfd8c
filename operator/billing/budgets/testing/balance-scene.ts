import * as fc from 'fast-check';
import type { RawObject } from '../../../kubernetes/source.ts';
import type { ManualClock } from '../../../kubernetes/testing/manual-clock.ts';
import type { Ledger } from '../../../ledger/ledger.ts';
import { testEvent } from '../../../ledger/testing/events.ts';
import { createMemoryLedger } from '../../../ledger/testing/memory-ledger.ts';
import { pod } from '../../../metering/meters/testing/objects.ts';
import type { Budget } from '../../../model/budget.ts';
import { decimalFromNanos } from '../../../model/decimal.ts';
import { clockAt, pass, settled } from '../../../metering/windows/testing/harness.ts';
import { CPU, type StoreWorld, startStoreWorld, TENANT } from './budget-world.ts';
import { sumUp } from './prepaid-world.ts';

const COUNTS = { kind: 'metric', metric: CPU } as const;
const WINDOW_MS = 60_000;
const DAY_MS = 86_400_000;
/** What is new is seen and judged by then. */
const SETTLED_MS = 2_000;
/** Who is marked is let go where nothing would be left again in so long. */
const STEADY_MS = 600_000;
/** A window is closed so long after its end. */
const SETTLING_MS = 3_000;
/** Budgets wait for missed windows so long at most. */
const MISSED_MS = 900_000;
/** Nano-core-hours: each window is rounded once. */
const ROUNDED = 100;

/** What happens. */
export interface Step {
  readonly does:
    | 'pass'
    /** Until so many seconds after the next window has begun. */
    | 'turn'
    /** A pod begins, ends or is deleted. */
    | 'begin'
    | 'end'
    | 'delete'
    /** The watch of pods breaks, so that windows wait, and comes back. */
    | 'break'
    | 'mend'
    /** The ledger takes no windows for a while, and takes them again. */
    | 'stall'
    | 'flow'
    /** Somebody else's usage is pushed in. */
    | 'push'
    | 'credit'
    /** The process ends, and so many seconds later another one takes the lead. */
    | 'restart';
  readonly pod: string;
  readonly cores: number;
  readonly seconds: number;
}

const OFTEN: readonly Step['does'][] = ['pass', 'turn', 'begin', 'end', 'delete'];
const SELDOM: readonly Step['does'][] = [
  'break',
  'mend',
  'stall',
  'flow',
  'push',
  'credit',
  'restart',
];

/** What happens one after the other; much of it in the seconds about the end of a window. */
export const steps: fc.Arbitrary<readonly Step[]> = fc.array(
  fc.record({
    does: fc.oneof(
      { weight: 3, arbitrary: fc.constantFrom(...OFTEN) },
      { weight: 1, arbitrary: fc.constantFrom(...SELDOM) },
    ),
    pod: fc.constantFrom('a', 'b', 'c'),
    cores: fc.integer({ min: 1, max: 3 }),
    seconds: fc.oneof(fc.integer({ min: 0, max: 3 }), fc.integer({ min: 1, max: 130 })),
  }),
  { maxLength: 25 },
);

interface Life {
  readonly name: string;
  readonly cores: number;
  readonly from: number;
  to: number | undefined;
}

/**
 * One tenant's pods on an operator whose watch, ledger and process fail, with what they use added
 * up from the beginning. What its watch does not show does not happen.
 */
export class BalanceScene implements AsyncDisposable {
  readonly #clock: ManualClock;
  readonly #period: Budget['period'];
  readonly #amount: bigint;
  readonly #ledger: Ledger = createMemoryLedger();
  /** The beginning of the first window of all. */
  readonly #metered: number;
  readonly #lives: Life[] = [];
  /** The pods that there are, by the names of steps. */
  readonly #running = new Map<string, Life>();
  #world: StoreWorld | undefined;
  #isBroken = false;
  #isStalled = false;
  /** The beginning of the window in which the first credit came. */
  #creditedFrom = Number.POSITIVE_INFINITY;
  #startedAt = 0;
  /** Windows that were due at the start are not closed yet. */
  #isWaiting = false;
  #made = 0;
  /**
   * The end of the newest window that is closed; a process that has closed none has not forgotten
   * it.
   */
  #closedUntil: number;
  /** What was shown last, and since when everything else is the same. */
  #seen: { circumstances: string; since: number; state: string } | undefined;

  /**
   * Begins so many seconds after the first window of other tests; a budget has so many
   * core-seconds, each credit as many.
   */
  constructor(period: Budget['period'], seconds: number, coreSeconds: number) {
    this.#period = period;
    this.#amount = (BigInt(coreSeconds) * 1_000_000_000n) / 3_600n;
    this.#clock = clockAt(seconds);
    this.#metered = Math.ceil(this.#clock.now() / WINDOW_MS) * WINDOW_MS;
    this.#closedUntil = this.#metered;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#world?.[Symbol.asyncDispose]();
  }

  async start(): Promise<void> {
    const ledger = this.#ledger;
    this.#startedAt = this.#clock.now();
    this.#isWaiting = true;
    const append: Ledger['append'] = async (batch) =>
      this.#isStalled
        ? { kind: 'failed', cause: 'retryable', message: 'stalled' }
        : ledger.append(batch);
    this.#world = await startStoreWorld({
      clock: this.#clock,
      ledger,
      windowsLedger: { ...ledger, append },
      totals: { addTo: sumUp(ledger) },
      budget: {
        counts: COUNTS,
        amount: this.#amount,
        period: this.#period,
        thresholds: [],
        atLimit: 'warn',
      },
      pods: this.#objects(),
    });
  }

  /**
   * To be called after each second: what is wrong with what is shown; undefined where it is as it
   * should be.
   */
  problem(): string | undefined {
    const status = this.#world?.controller.of(TENANT);
    const collector = this.#world?.process.collector;
    if (status === undefined || collector === undefined) return 'no account';
    const { used, limit, state } = status;
    const now = this.#clock.now();
    const end = Math.max(collector.closedUntil(), this.#closedUntil);
    this.#closedUntil = end;
    const isComplete = collector.closedHead() !== undefined;
    const areMissing = collector.unclosedEnd() + SETTLING_MS <= this.#startedAt || !isComplete;
    this.#isWaiting &&= areMissing && now < this.#startedAt + MISSED_MS;
    const circumstances = [end, isComplete, limit, this.#from, this.#isWaiting].join();
    const before = this.#seen;
    const isSame = before?.circumstances === circumstances;
    const since = isSame ? before.since : now;
    this.#seen = { circumstances, since, state };
    const expected = this.#expectedBy(now, end);
    const all = Number(limit);
    const isMarked = state !== 'active';
    const isRaised = isMarked && before?.state === 'active';
    if (isRaised && this.#isWaiting) return 'marked without the missed windows';
    const isNew = isRaised && isSame;
    if (isNew && expected < all - ROUNDED) return `marked early: ${expected} of ${all}`;
    if (now - since < SETTLED_MS) return undefined;
    const closed = this.#usedBy(end);
    if (Math.abs(Number(used) - closed) > ROUNDED) return `used: ${used}, not ${closed}`;
    if (this.#isWaiting) return undefined;
    const reached = this.#expectedBy(now - SETTLED_MS, end);
    if (!isMarked && reached >= all + ROUNDED) return `not marked: ${reached} of ${all}`;
    const soon = this.#expectedBy(now + STEADY_MS, end);
    if (isMarked && isComplete && soon < all - ROUNDED) return `not let go: ${soon} of ${all}`;
    return undefined;
  }

  /** Nano-core-hours that are used of the budget by a moment, added up pod by pod. */
  #usedBy(moment: number): number {
    const since = Math.max(this.#from, this.#metered);
    const coreMs = this.#lives.reduce((sum, life) => {
      const to = Math.min(life.to ?? moment, moment);
      return sum + life.cores * Math.max(0, to - Math.max(life.from, since));
    }, 0);
    return (coreMs * 1e9) / 3_600_000;
  }

  /** What will be used by a moment at the rate of the window that ends at `end`. */
  #expectedBy(moment: number, end: number): number {
    const since = Math.max(this.#metered, end - WINDOW_MS);
    const coreMs = this.#lives.reduce((sum, life) => {
      const to = Math.min(life.to ?? end, end);
      return sum + life.cores * Math.max(0, to - Math.max(life.from, since));
    }, 0);
    const perMs = (coreMs * 1e9) / 3_600_000 / WINDOW_MS;
    return this.#usedBy(end) + perMs * Math.max(0, moment - Math.max(end, this.#from));
  }

  /** The beginning of what counts. */
  get #from(): number {
    if (this.#period.kind === 'prepaid') return this.#creditedFrom;
    return Math.floor(this.#clock.now() / DAY_MS) * DAY_MS;
  }

  /** Calls after each second. */
  async does(step: Step, check: () => void): Promise<void> {
    const world = this.#world;
    if (world === undefined) throw new Error('nobody has started the scene');
    switch (step.does) {
      case 'pass':
        await this.#pass(step.seconds, check);
        break;
      case 'turn':
        await this.#pass(60 - (this.#clock.now() % WINDOW_MS) / 1000 + step.seconds, check);
        break;
      case 'begin':
        await this.#begin(world, step);
        break;
      case 'end':
      case 'delete':
        await this.#end(world, step);
        break;
      case 'break':
        if (!this.#isBroken) world.process.pods.fail('away');
        this.#isBroken = true;
        break;
      case 'mend':
        if (this.#isBroken) world.process.pods.recover(this.#objects());
        this.#isBroken = false;
        break;
      case 'stall':
        this.#isStalled = true;
        break;
      case 'flow':
        this.#isStalled = false;
        break;
      case 'push':
        await this.#ledger.append({
          events: [testEvent({ id: this.#nameOf('pushed'), tenant: 'somebody' })],
        });
        break;
      case 'credit':
        await this.#credit(world);
        break;
      case 'restart':
        await this.#restart(world, step, check);
    }
    await settled();
  }

  async #pass(seconds: number, check: () => void): Promise<void> {
    for (let second = 0; second < seconds; second += 1) {
      await pass(this.#clock, 1);
      check();
    }
  }

  /** When everything is written: what was deleted and never written nobody knows of. */
  async #restart(world: StoreWorld, { seconds }: Step, check: () => void): Promise<void> {
    this.#isStalled = false;
    while (world.process.collector.closedHead() === undefined) await this.#pass(1, check);
    await world.process.stop();
    await world[Symbol.asyncDispose]();
    this.#isBroken = false;
    await this.#clock.advance(seconds * 1000);
    await this.start();
  }

  async #begin(world: StoreWorld, { pod: of, cores }: Step): Promise<void> {
    if (this.#isBroken || this.#running.has(of)) return;
    const name = this.#nameOf(of);
    const life: Life = { name, cores, from: this.#clock.now(), to: undefined };
    this.#lives.push(life);
    this.#running.set(of, life);
    await world.see(objectOf(life));
  }

  async #end(world: StoreWorld, { pod: of, does }: Step): Promise<void> {
    const life = this.#running.get(of);
    if (this.#isBroken || life === undefined) return;
    this.#running.delete(of);
    const last = objectOf(life);
    life.to = this.#clock.now();
    if (does === 'end') await world.see(objectOf(life));
    else world.process.pods.remove(last);
  }

  async #credit({ credits }: StoreWorld): Promise<void> {
    const amount = decimalFromNanos(this.#amount);
    await credits.add({ tenant: TENANT, key: this.#nameOf('credit'), amount, counts: COUNTS });
    const windowStart = Math.floor(this.#clock.now() / WINDOW_MS) * WINDOW_MS;
    this.#creditedFrom = Math.min(this.#creditedFrom, windowStart);
  }

  #objects(): readonly RawObject[] {
    return [...this.#running.values()].map(objectOf);
  }

  #nameOf(what: string): string {
    this.#made += 1;
    return `${what}-${this.#made}`;
  }
}

function objectOf({ name, cores, from, to }: Life): RawObject {
  const ended = to === undefined ? {} : { phase: 'Succeeded', finishedAt: to };
  return pod({
    name,
    createdAt: from,
    startedAt: from,
    containers: [{ cpu: `${cores}` }],
    ...ended,
  });
}
