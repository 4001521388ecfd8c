import { quote } from '../../model/quote.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { LateRefusal } from '../destination.ts';
import type { StripePrice } from './prices.ts';
import { collectionProblem, type StripeSubscription } from './subscription.ts';

/** Records accepted usage that brings no money; logs each reason once (`LateRefusals`). */
export class Losses {
  readonly #name: string;
  readonly #clock: Clock;
  readonly #logger: Logger;
  /** Subscriptions that bring no money now, by tenant. */
  readonly #uncollected = new Map<string, readonly LateRefusal[]>();
  /** Usage from before a price that may be on no invoice, by tenant. */
  readonly #unclear = new Map<string, readonly LateRefusal[]>();
  /** Drafts that nothing finalizes, by customer. */
  readonly #drafts = new Map<string, readonly LateRefusal[]>();

  constructor(name: string, clock: Clock, logger: Logger) {
    this.#name = name;
    this.#clock = clock;
    this.#logger = logger;
  }

  see(tenant: string, subscriptions: readonly StripeSubscription[]): void {
    const before = this.#uncollected.get(tenant) ?? [];
    const losses = subscriptions.flatMap((subscription): LateRefusal[] => {
      const problem = collectionProblem(subscription);
      const isOwn = subscription.live && subscription.tenant === tenant;
      if (!isOwn || problem === undefined) return [];
      const reason = `subscription ${subscription.id} of tenant ${quote(tenant)} ${problem}`;
      return [this.#noted(before, reason)];
    });
    this.#uncollected.set(tenant, losses);
  }

  /** Records usage of a meter since a time, in seconds, that may not have been charged. */
  unclear(tenant: string, { meter, plan }: StripePrice, since: number): void {
    const before = this.#unclear.get(tenant) ?? [];
    const from = new Date(since * 1000).toISOString();
    const reason =
      `usage of tenant ${quote(tenant)} since ${from} may be on no invoice: meter ${meter} has had a price before ` +
      `plan ${quote(plan ?? '')} charged it; compare its sums with the invoices, and add an invoice item`;
    const known = before.filter((one) => one.reason !== reason);
    this.#unclear.set(tenant, [...known, this.#noted(before, reason)]);
  }

  /** Sets the current problems of a customer's drafts. They outlive the tenant. */
  drafts(customer: string, problems: readonly string[]): void {
    const before = this.#drafts.get(customer) ?? [];
    this.#drafts.set(
      customer,
      problems.map((reason) => this.#noted(before, reason)),
    );
  }

  forget(tenant: string): void {
    this.#uncollected.delete(tenant);
    this.#unclear.delete(tenant);
  }

  all(): readonly LateRefusal[] {
    const all = [this.#uncollected, this.#unclear, this.#drafts];
    return all.flatMap((by) => [...by.values()].flat());
  }

  #noted(before: readonly LateRefusal[], reason: string): LateRefusal {
    const known = before.find((one) => one.reason === reason);
    if (known !== undefined) return known;
    this.#logger.warn(`[${this.#name}] ${reason}`);
    return { at: this.#clock.now(), events: 0, reason };
  }
}
