import {
  decimalFromNanos,
  nanosFromDecimal,
  parseSigned,
  roundToDecimal,
} from '../../model/decimal.ts';
import type { UsageEvent } from '../../model/event.ts';
import type {
  BucketEvent,
  RecordedTotalOutcome,
  RecordedTotalQuery,
  VerifyOutcome,
} from '../destination.ts';
import type { ApiProblem } from '../json-api/answer.ts';
import type { StripeCustomers } from './customers.ts';
import { isMeterOf, meterName, type StripeMeters } from './meters.ts';
import { meterValue } from './meter-event.ts';
import type { StripeClient } from './stripe-client.ts';

const MINUTE_MS = 60_000;
/** Summaries follow events with a delay: the bound of polls of one minute, and their interval. */
const MAX_POLLS = 3;
const POLL_AGAIN_MS = 600_000;
/** The bound of events whose combinations are tried. */
const MAX_COMBINED = 14;
/** A sum is a double: about this many of its digits are exact. */
const SUM_DIGITS = 10n ** 13n;

interface SumCandidate {
  readonly id: string;
  readonly nanos: bigint;
}

type BucketOutcome =
  | { readonly kind: 'present'; readonly ids: ReadonlySet<string> }
  | { readonly kind: 'uncertain'; readonly reason: string }
  | { readonly kind: 'retry'; readonly reason: string; readonly afterMs?: number };

const NO_LONGER_STORED =
  'Stripe’s sum of the minute does not show whether it has the event: the other events of the minute are no longer in the ledger';

const NOTHING: BucketOutcome = { kind: 'present', ids: new Set() };

/**
 * Reads the usage that Stripe counted, from its event summaries. Summaries follow events with a
 * delay, and are doubles.
 */
export class EventSummaries {
  readonly #client: StripeClient;
  readonly #meters: StripeMeters;
  readonly #customers: StripeCustomers;
  readonly #splitBy: readonly string[];
  readonly #named: (tenant: string) => string | undefined;
  /** The number of polls of a minute whose sum lacks known events. */
  readonly #polls = new Map<string, number>();

  constructor(
    client: StripeClient,
    meters: StripeMeters,
    customers: StripeCustomers,
    splitBy: readonly string[],
    named: (tenant: string) => string | undefined,
  ) {
    this.#client = client;
    this.#meters = meters;
    this.#customers = customers;
    this.#splitBy = splitBy;
    this.#named = named;
  }

  /** Returns the sum of a tenant's metric over all its meters. */
  async total(
    { tenant, metric, from, to }: RecordedTotalQuery,
    signal: AbortSignal,
  ): Promise<RecordedTotalOutcome> {
    const customer = await this.#customers.find(tenant.id, tenant.customerIds?.['stripe'], signal);
    if (customer.kind === 'none') return { kind: 'total', quantity: decimalFromNanos(0n) };
    if (customer.kind === 'retry') return { kind: 'retry', reason: customer.reason };
    if (customer.kind !== 'customer') return { kind: 'unsupported', reason: customer.reason };
    if (this.#customers.isShared(customer.id)) {
      const reason = `its customer in Stripe pays for several tenants: "${customer.id}"`;
      return { kind: 'unsupported', reason };
    }
    let nanos = 0n;
    for (const meter of this.#meters
      .all()
      .filter(({ eventName }) => isMeterOf(eventName, metric))) {
      const sum = await this.#sum(meter.id, customer.id, from, to, signal);
      if (typeof sum !== 'bigint') return sum;
      nanos += sum;
    }
    return { kind: 'total', quantity: decimalFromNanos(nanos < 0n ? 0n : nanos) };
  }

  /**
   * Returns which events Stripe has. Stripe forgets identifiers after a day, but its summaries have
   * the sum of each customer, meter and minute.
   *
   * The known delivered quantities of that bucket are subtracted. The remainder must be the sum of
   * some of the uncertain events (docs/how-to/destinations/stripe.md#meter-events).
   */
  async verify(
    events: readonly UsageEvent[],
    signal: AbortSignal,
    sameBucket?: readonly BucketEvent[],
  ): Promise<VerifyOutcome> {
    const keyOf = (event: UsageEvent): string =>
      `${event.tenant}\0${meterName(event, this.#splitBy)}\0${minuteOf(event)}`;
    const buckets = sameBucket && Map.groupBy(sameBucket, ({ event }) => keyOf(event));
    const known = new Set<string>();
    const uncertain = new Map<string, string>();
    for (const [key, requested] of Map.groupBy(events, keyOf)) {
      const outcome = await this.#verifyBucket(key, requested, buckets?.get(key), signal);
      if (outcome.kind === 'retry') return outcome;
      for (const { id } of requested) {
        if (outcome.kind === 'uncertain') uncertain.set(id, outcome.reason);
        else if (outcome.ids.has(id)) known.add(id);
      }
    }
    return { kind: 'verified', known, uncertain };
  }

  async #verifyBucket(
    key: string,
    requested: readonly UsageEvent[],
    all: readonly BucketEvent[] | undefined,
    signal: AbortSignal,
  ): Promise<BucketOutcome> {
    const [first] = requested;
    const meter = first && this.#meters.find(meterName(first, this.#splitBy));
    if (first === undefined || meter === undefined) return NOTHING;
    const customer = await this.#customers.find(first.tenant, this.#named(first.tenant), signal);
    if (customer.kind === 'none') return NOTHING;
    if (customer.kind !== 'customer') return { kind: 'retry', reason: customer.reason };
    const minute = minuteOf(first);
    const sum = await this.#sum(meter.id, customer.id, minute, minute + MINUTE_MS, signal);
    if (typeof sum !== 'bigint') return { kind: 'retry', reason: sum.reason };
    if (sum !== 0n && this.#customers.isShared(customer.id)) {
      return { kind: 'uncertain', reason: 'its customer in Stripe pays for several tenants' };
    }
    if (all === undefined) {
      return sum === 0n ? NOTHING : { kind: 'uncertain', reason: NO_LONGER_STORED };
    }
    const base = all
      .filter(({ delivered }) => delivered)
      .reduce((total, { event }) => total + nanosOf(event), 0n);
    const open = all
      .filter(({ delivered }) => !delivered)
      .map(({ event }) => ({ id: event.id, nanos: nanosOf(event) }));
    const ids = whichMakeUp(sum - base, open, 1n + sum / SUM_DIGITS);
    if (ids !== undefined) {
      this.#polls.delete(key);
      return { kind: 'present', ids };
    }
    const poll = (this.#polls.get(key) ?? 0) + 1;
    this.#polls.set(key, poll);
    const reason = `Stripe’s sum of the minute does not show whether it has the event: meter: "${meter.eventName}"`;
    if (poll < MAX_POLLS) return { kind: 'retry', reason, afterMs: POLL_AGAIN_MS };
    this.#polls.delete(key);
    return { kind: 'uncertain', reason };
  }

  /**
   * Returns the sum of a meter's events of one customer with a timestamp in `[from, to)`, in nano
   * units. Bounds are full minutes.
   */
  async used(
    meter: string,
    customer: string,
    from: number,
    to: number,
    signal: AbortSignal,
  ): Promise<bigint | ApiProblem> {
    const window = { customer, start_time: from / 1000, end_time: to / 1000 };
    const path = `/v1/billing/meters/${encodeURIComponent(meter)}/event_summaries`;
    const list = await this.#client.list(path, window, signal);
    if (list.kind !== 'list') return list;
    let nanos = 0n;
    for (const summary of list.items) {
      const value = Number(summary['aggregated_value'] ?? 0);
      const decimal = roundToDecimal(String(Math.abs(value)));
      if (decimal === undefined) {
        const reason = `not a number: aggregated_value: "${value}"`;
        return { kind: 'refused', status: 200, code: '', details: {}, reason };
      }
      nanos += value < 0 ? -nanosFromDecimal(decimal) : nanosFromDecimal(decimal);
    }
    return nanos;
  }

  async #sum(
    meter: string,
    customer: string,
    from: number,
    to: number,
    signal: AbortSignal,
  ): Promise<bigint | Exclude<RecordedTotalOutcome, { kind: 'total' }>> {
    const nanos = await this.used(meter, customer, from, to, signal);
    if (typeof nanos === 'bigint') return nanos;
    const { kind, reason } = nanos;
    return { kind: kind === 'refused' ? 'unsupported' : 'retry', reason };
  }
}

/**
 * Returns the events that make up a sum. It tries the first ones, since events are sent in order,
 * and then every combination. Undefined when none or several match.
 */
export function whichMakeUp(
  sum: bigint,
  candidates: readonly SumCandidate[],
  tolerance: bigint,
): ReadonlySet<string> | undefined {
  const matches = (total: bigint): boolean => {
    const difference = total - sum;
    return difference <= tolerance && -difference <= tolerance;
  };
  let total = 0n;
  for (let count = 0; count <= candidates.length; count += 1) {
    if (matches(total)) return new Set(candidates.slice(0, count).map(({ id }) => id));
    total += candidates[count]?.nanos ?? 0n;
  }
  if (candidates.length > MAX_COMBINED) return undefined;
  let found: SumCandidate[] | undefined;
  for (let mask = 1; mask < 2 ** candidates.length; mask += 1) {
    const chosen = candidates.filter((_, index) => Math.floor(mask / 2 ** index) % 2 === 1);
    if (!matches(chosen.reduce((all, { nanos }) => all + nanos, 0n))) continue;
    if (found !== undefined) return undefined;
    found = chosen;
  }
  return found === undefined ? undefined : new Set(found.map(({ id }) => id));
}

/** Returns the minute of the window's start, the event's timestamp; ms since the epoch. */
function minuteOf({ window_start }: UsageEvent): number {
  return Math.floor(Date.parse(window_start) / MINUTE_MS) * MINUTE_MS;
}

/** Returns the quantity as it was sent to Stripe. */
function nanosOf({ quantity }: UsageEvent): bigint {
  return nanosFromDecimal(parseSigned(meterValue(quantity)) ?? quantity);
}
