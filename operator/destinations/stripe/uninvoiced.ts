import type { Clock } from '../../telemetry/clock.ts';
import type { ApiProblem } from '../json-api/answer.ts';
import { objectsOf } from '../json.ts';
import type { EventSummaries } from './event-summaries.ts';
import type { StripeClient } from './stripe-client.ts';
import type { StripePrice } from './prices.ts';
import { endedOf } from './plan-changes.ts';
import type { StripeSubscription } from './subscription.ts';

/** The time of the final invoice of a subscription may be a little before its end. */
const TOLERANCE_SECONDS = 60;
const MINUTE_SECONDS = 60;

export type Reach =
  /** Seconds since the epoch. */
  | { readonly kind: 'from'; readonly at: number }
  | { readonly kind: 'nothing' }
  /** Usage that may or may not have been charged, in nano units since a time. */
  | { readonly kind: 'unclear'; readonly since: number; readonly nanos: bigint }
  | ApiProblem;

/** Finds since when usage is on no invoice, as Stripe shows it. Times are seconds since 1970. */
export class UninvoicedUsage {
  readonly #client: StripeClient;
  readonly #summaries: EventSummaries;
  readonly #clock: Clock;

  constructor(client: StripeClient, summaries: EventSummaries, clock: Clock) {
    this.#client = client;
    this.#summaries = summaries;
    this.#clock = clock;
  }

  /**
   * Returns it for a tenant without a subscription: the end of the last one. If that ended without
   * an invoice, as after failed payments, Stripe dropped the usage of its last period. Its start is
   * returned then.
   */
  async afterEnd(
    tenant: string,
    subscriptions: readonly StripeSubscription[],
    signal: AbortSignal,
  ): Promise<Reach> {
    const [last, previous] = endedOf(subscriptions, tenant);
    if (last?.endedAt === undefined) return { kind: 'nothing' };
    const before = previous?.endedAt ?? 0;
    const created = { gte: last.endedAt - TOLERANCE_SECONDS };
    const params = { subscription: last.id, created, limit: 1 };
    const answer = await this.#client.get('/v1/invoices', params, signal);
    if (answer.kind === 'retry') return answer;
    // A key that may not read invoices must not charge usage that may be on one.
    const isInvoiced = answer.kind !== 'ok' || objectsOf(answer.body, 'data').length > 0;
    const at = isInvoiced ? last.endedAt : Math.max(before, last.periodStart);
    return { kind: 'from', at: Math.min(at, last.endedAt) };
  }

  /**
   * Returns it for a meter that no price charges, although the tenant has subscriptions: the start
   * of their period, or the later end of one that charged it. An older price may have charged the
   * meter in an item that was removed; the result is then `unclear`.
   */
  async ofMeter(
    { meter }: StripePrice,
    customer: string,
    subscriptions: readonly StripeSubscription[],
    periodStart: number,
    signal: AbortSignal,
  ): Promise<Reach> {
    const ends = subscriptions
      .filter(({ live, items }) => !live && items.some(({ price }) => price.meter === meter))
      .map(({ endedAt }) => endedAt ?? 0);
    const since = Math.max(periodStart, ...ends);
    const nanos = await this.#used(meter, customer, since, signal);
    if (typeof nanos !== 'bigint') return nanos;
    if (nanos <= 0n) return { kind: 'nothing' };
    const filter = { recurring: { meter, usage_type: 'metered' } };
    const prices = await this.#client.list('/v1/prices', filter, signal);
    if (prices.kind !== 'list') return prices;
    const oldest = Math.min(...prices.items.map(({ created }) => Number(created ?? 0)));
    return oldest < since ? { kind: 'unclear', since, nanos } : { kind: 'from', at: since };
  }

  /** Returns a customer's usage of a meter since a time, in nano units. */
  async #used(
    meter: string,
    customer: string,
    since: number,
    signal: AbortSignal,
  ): Promise<bigint | ApiProblem> {
    const now = Math.ceil(this.#clock.now() / 1000 / MINUTE_SECONDS) * MINUTE_SECONDS;
    const start = Math.floor(since / MINUTE_SECONDS) * MINUTE_SECONDS;
    if (now <= start) return 0n;
    return this.#summaries.used(meter, customer, start * 1000, now * 1000, signal);
  }
}
