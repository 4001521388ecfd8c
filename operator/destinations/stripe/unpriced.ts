import { decimalFromNanos } from '../../model/decimal.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { UnpricedUsage } from '../prices.ts';
import { meterName } from './meters.ts';

/** What is remembered of what was seen; beyond it new kinds of usage are not looked at. */
const MAX_SEEN = 2_000;
/** How often it is asked what is at stake, of how many kinds of usage and tenants. */
const POLL_EVERY_MS = 600_000;
const MAX_REQUESTED = 50;

/** What a tenant has used of a meter in its running period, and when that ends. */
export interface PeriodUsage {
  readonly nanos: bigint;
  /** Milliseconds since the epoch; undefined where the tenant has no period. */
  readonly until: number | undefined;
}

interface UnpricedOptions {
  readonly splitBy: readonly string[];
  /** Whether a price charges a meter in a plan; undefined when that is not known. */
  readonly isPriced: (plan: string, meter: string) => boolean | undefined;
  /** Undefined when it cannot be told. */
  readonly usageOf: (
    tenant: string,
    meter: string,
    signal: AbortSignal,
  ) => Promise<PeriodUsage | undefined>;
  /** Milliseconds that only grow. */
  readonly monotonic: () => number;
}

interface SeenKind {
  readonly usage: UnpricedUsage;
  readonly meter: string;
  readonly tenants: Set<string>;
  stake: Pick<UnpricedUsage, 'atStake' | 'savedUntil'>;
}

/**
 * Which kinds of usage have come, which of them no price charges, and how much of it can still be billed
 * (docs/how-to/destinations/stripe.md#prices-by-sku-and-capacity-type).
 */
export class UnpricedWatch {
  readonly #options: UnpricedOptions;
  readonly #seen = new Map<string, SeenKind>();
  #nextLook = Number.NEGATIVE_INFINITY;

  constructor(options: UnpricedOptions) {
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

  /** Asks what is at stake when that was long ago. */
  async poll(signal: AbortSignal): Promise<void> {
    const { monotonic, usageOf } = this.#options;
    if (monotonic() < this.#nextLook) return;
    const kinds = this.#open();
    if (kinds.length === 0) return;
    this.#nextLook = monotonic() + POLL_EVERY_MS;
    let requested = 0;
    for (const kind of kinds) {
      const usages: (PeriodUsage | undefined)[] = [];
      requested += kind.tenants.size;
      // A part of it would look like all of it.
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
