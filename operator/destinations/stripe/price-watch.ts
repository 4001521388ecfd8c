import { decimalFromNanos } from '../../model/decimal.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { UnpricedUsage } from '../prices.ts';
import type { EventSummaries } from './event-summaries.ts';
import { meterName, type StripeMeters } from './meters.ts';
import type { StripePrices } from './prices.ts';
import type { StripeSettings } from './settings.ts';
import type { StripeSubscriptions } from './subscriptions.ts';

/** The bound of remembered kinds of usage; further kinds are not checked for prices. */
const MAX_SEEN = 2_000;
/** How often quantities at stake are read, and for how many pairs of tenant and kind of usage. */
const POLL_EVERY_MS = 600_000;
const MAX_REQUESTED = 50;

const MINUTE_MS = 60_000;

/** A tenant's usage of a meter in its current period, and the end of that period. */
interface PeriodUsage {
  readonly nanos: bigint;
  /** Milliseconds since the epoch; undefined where the tenant has no period. */
  readonly until: number | undefined;
}

interface SeenKind {
  readonly usage: UnpricedUsage;
  readonly meter: string;
  readonly tenants: Set<string>;
  stake: Pick<UnpricedUsage, 'atStake' | 'savedUntil'>;
}

/**
 * Remembers delivered kinds of usage, finds those that no price charges, and how much of it an
 * added price would still bill
 * (docs/how-to/destinations/stripe.md#prices-by-sku-and-capacity-type).
 */
export class StripePriceWatch {
  readonly #options;
  readonly #seen = new Map<string, SeenKind>();
  #nextPoll = Number.NEGATIVE_INFINITY;

  constructor(options: {
    readonly settings: Pick<StripeSettings, 'splitMetersBy' | 'planCode' | 'autoSubscribe'>;
    readonly clock: Clock;
    readonly meters: Pick<StripeMeters, 'find'>;
    readonly prices: Pick<StripePrices, 'current' | 'refresh'>;
    readonly subscriptions: Pick<StripeSubscriptions, 'planOf' | 'periodOf'>;
    readonly summaries: Pick<EventSummaries, 'used'>;
  }) {
    this.#options = options;
  }

  unpriced(): readonly UnpricedUsage[] {
    return this.#open().map(({ usage, stake }) => ({ ...usage, ...stake }));
  }

  async poll(delivered: readonly UsageEvent[], signal: AbortSignal): Promise<void> {
    const { settings, prices, subscriptions } = this.#options;
    for (const [tenant, events] of Map.groupBy(delivered, (event) => event.tenant)) {
      this.#see(subscriptions.planOf(tenant) ?? settings.planCode, events);
    }
    // The destination also works with a key that may not read prices.
    await prices.refresh(signal);
    await this.#readStakes(signal);
  }

  #see(plan: string, events: readonly UsageEvent[]): void {
    for (const event of events) {
      const meter = meterName(event, this.#options.settings.splitMetersBy);
      const key = `${plan}\0${meter}`;
      const known = this.#seen.get(key);
      known?.tenants.add(event.tenant);
      if (known !== undefined || this.#seen.size >= MAX_SEEN) continue;
      const { metric, sku } = event;
      const named = sku !== undefined && meter !== metric;
      const usage = { plan, metric, ...(named && { sku }) };
      this.#seen.set(key, { meter, usage, tenants: new Set([event.tenant]), stake: {} });
    }
  }

  /** Reads the quantities at stake when the last poll is old. */
  async #readStakes(signal: AbortSignal): Promise<void> {
    const now = this.#options.clock.monotonic();
    if (now < this.#nextPoll) return;
    const kinds = this.#open();
    if (kinds.length === 0) return;
    this.#nextPoll = now + POLL_EVERY_MS;
    let requested = 0;
    for (const kind of kinds) {
      const usages: (PeriodUsage | undefined)[] = [];
      requested += kind.tenants.size;
      // The sum of some tenants would look like that of all.
      if (requested <= MAX_REQUESTED) {
        for (const tenant of kind.tenants) {
          usages.push(await this.#usageOf(tenant, kind.meter, signal));
        }
      }
      kind.stake = stakeOf(usages);
    }
  }

  #open(): readonly SeenKind[] {
    return [...this.#seen.values()].filter(
      ({ usage, meter }) => !(this.#isPriced(usage.plan, meter) ?? true),
    );
  }

  /** Returns undefined when the usage is unknown. */
  async #usageOf(
    tenant: string,
    meterNamed: string,
    signal: AbortSignal,
  ): Promise<PeriodUsage | undefined> {
    const { meters, subscriptions, summaries, clock } = this.#options;
    const meter = meters.find(meterNamed);
    const period = subscriptions.periodOf(tenant);
    if (meter === undefined || period === undefined) return undefined;
    const from = Math.floor(period.start / MINUTE_MS) * MINUTE_MS;
    const to = Math.ceil(clock.now() / MINUTE_MS) * MINUTE_MS;
    if (to <= from) return { nanos: 0n, until: period.end };
    const nanos = await summaries.used(meter.id, period.customer, from, to, signal);
    return typeof nanos === 'bigint' ? { nanos, until: period.end } : undefined;
  }

  /**
   * Returns whether a price charges a meter; any price does if we make no subscriptions. Undefined
   * when that is unknown.
   */
  #isPriced(plan: string, meterNamed: string): boolean | undefined {
    const { meters, prices, settings } = this.#options;
    const meter = meters.find(meterNamed);
    const all = prices.current();
    if (all === undefined || meter === undefined) return undefined;
    const { autoSubscribe } = settings;
    return all.some((price) => price.meter === meter.id && (!autoSubscribe || price.plan === plan));
  }
}

function stakeOf(usages: readonly (PeriodUsage | undefined)[]): SeenKind['stake'] {
  let nanos = 0n;
  let savedUntil: number | undefined;
  for (const usage of usages) {
    if (usage === undefined) return {};
    nanos += usage.nanos;
    if (usage.until !== undefined) savedUntil = Math.min(savedUntil ?? Infinity, usage.until);
  }
  if (nanos <= 0n) return {};
  return { atStake: decimalFromNanos(nanos), savedUntil };
}
