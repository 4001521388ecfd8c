import type { UsageEvent } from '../../model/event.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { UnpricedUsage } from '../prices.ts';
import type { EventSummaries } from './event-summaries.ts';
import type { StripeMeters } from './meters.ts';
import type { StripePrices } from './prices.ts';
import type { StripeSettings } from './settings.ts';
import type { StripeSubscriptions } from './subscriptions.ts';
import { type PeriodUsage, StripeUnpricedWatch } from './unpriced.ts';

const MINUTE_MS = 60_000;

/** Finds usage that no price charges, and how much of it an added price would still bill. */
export class StripePriceWatch {
  readonly #options;
  readonly #watch: StripeUnpricedWatch;

  constructor(options: {
    readonly settings: Pick<StripeSettings, 'splitMetersBy' | 'planCode' | 'autoSubscribe'>;
    readonly clock: Clock;
    readonly meters: Pick<StripeMeters, 'find'>;
    readonly prices: Pick<StripePrices, 'current' | 'refresh'>;
    readonly subscriptions: Pick<StripeSubscriptions, 'planOf' | 'periodOf'>;
    readonly summaries: Pick<EventSummaries, 'used'>;
  }) {
    const { settings, clock } = options;
    this.#options = options;
    this.#watch = new StripeUnpricedWatch({
      splitBy: settings.splitMetersBy,
      isPriced: (plan, meter) => this.#isPriced(plan, meter),
      usageOf: (tenant, meter, signal) => this.#usageOf(tenant, meter, signal),
      monotonic: () => clock.monotonic(),
    });
  }

  unpriced(): readonly UnpricedUsage[] {
    return this.#watch.unpriced();
  }

  async poll(delivered: readonly UsageEvent[], signal: AbortSignal): Promise<void> {
    const { settings, prices, subscriptions } = this.#options;
    for (const [tenant, events] of Map.groupBy(delivered, (event) => event.tenant)) {
      this.#watch.see(subscriptions.planOf(tenant) ?? settings.planCode, events);
    }
    // The destination also works with a key that may not read prices.
    await prices.refresh(signal);
    await this.#watch.poll(signal);
  }

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

  /** Returns whether a price charges a meter; any price does if we make no subscriptions. */
  #isPriced(plan: string, meterNamed: string): boolean | undefined {
    const { meters, prices, settings } = this.#options;
    const meter = meters.find(meterNamed);
    const all = prices.current();
    if (all === undefined || meter === undefined) return undefined;
    const { autoSubscribe } = settings;
    return all.some((price) => price.meter === meter.id && (!autoSubscribe || price.plan === plan));
  }
}
