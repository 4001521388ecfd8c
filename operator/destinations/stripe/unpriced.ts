import { decimalFromNanos } from '../../model/decimal.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { UnpricedUsage } from '../prices.ts';
import { meterName } from './meters.ts';

/** The bound of remembered kinds of usage; further kinds are not checked for prices. */
const MAX_SEEN = 2_000;
/** How often quantities at stake are read, and for how many pairs of tenant and kind of usage. */
const POLL_EVERY_MS = 600_000;
const MAX_REQUESTED = 50;

/** A tenant's usage of a meter in its current period, and the end of that period. */
export interface PeriodUsage {
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
 * Remembers delivered kinds of usage, finds those that no price charges, and how much of it can
 * still be billed (docs/how-to/destinations/stripe.md#prices-by-sku-and-capacity-type).
 */
export class StripeUnpricedWatch {
  readonly #options;
  readonly #seen = new Map<string, SeenKind>();
  #nextPoll = Number.NEGATIVE_INFINITY;

  constructor(options: {
    readonly splitBy: readonly string[];
    /** Returns whether a price charges a meter in a plan; undefined when that is unknown. */
    readonly isPriced: (plan: string, meter: string) => boolean | undefined;
    /** Returns undefined when the usage is unknown. */
    readonly usageOf: (
      tenant: string,
      meter: string,
      signal: AbortSignal,
    ) => Promise<PeriodUsage | undefined>;
    /** Returns monotonic milliseconds. */
    readonly monotonic: () => number;
  }) {
    this.#options = options;
  }

  see(plan: string, events: readonly UsageEvent[]): void {
    for (const event of events) {
      const meter = meterName(event, this.#options.splitBy);
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
  async poll(signal: AbortSignal): Promise<void> {
    const { monotonic, usageOf } = this.#options;
    if (monotonic() < this.#nextPoll) return;
    const kinds = this.#open();
    if (kinds.length === 0) return;
    this.#nextPoll = monotonic() + POLL_EVERY_MS;
    let requested = 0;
    for (const kind of kinds) {
      const usages: (PeriodUsage | undefined)[] = [];
      requested += kind.tenants.size;
      // The sum of some tenants would look like that of all.
      if (requested <= MAX_REQUESTED) {
        for (const tenant of kind.tenants) usages.push(await usageOf(tenant, kind.meter, signal));
      }
      kind.stake = stakeOf(usages);
    }
  }

  unpriced(): readonly UnpricedUsage[] {
    return this.#open().map(({ usage, stake }) => ({ ...usage, ...stake }));
  }

  #open(): readonly SeenKind[] {
    const { isPriced } = this.#options;
    return [...this.#seen.values()].filter(
      ({ usage, meter }) => !(isPriced(usage.plan, meter) ?? true),
    );
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
