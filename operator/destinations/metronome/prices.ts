import type { Clock } from '../../telemetry/clock.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { UnpricedUsage } from '../destination.ts';
import { isObject, type JsonObject, textOf } from '../json.ts';
import type { MetronomeMetric } from './billable-metrics.ts';
import { ABSENT } from './metric-definition.ts';
import type { MetronomeClient } from './metronome-client.ts';
import { listProducts, metricAt, type Product } from './products.ts';

/** How often rate cards are looked at for prices. */
const LOOK_EVERY_MS = 300_000;
/** What is remembered of what was seen; beyond it new kinds of usage are not looked at. */
const MAX_SEEN = 2_000;

/**
 * Which kinds of usage have come, and which of them no rate of their rate card puts a price on (design
 * 7). A rate of 0 is a price: somebody has set it.
 */
export interface PriceWatch {
  see(rateCardId: string, event: UsageEvent, metric: MetronomeMetric): void;
  /** Looks at the rate cards that matter, now and then. It never fails: what cannot be read is left out. */
  look(signal: AbortSignal): Promise<void>;
  unpriced(): readonly UnpricedUsage[];
}

interface Kind extends UnpricedUsage {
  /** Group keys and their values, without the tenant cluster. */
  readonly values: Readonly<Record<string, string>>;
  readonly metricIds: readonly string[];
}

interface Rate {
  readonly productId: string;
  readonly values: Readonly<Record<string, string>>;
}

export function createPriceWatch(client: MetronomeClient, clock: Clock): PriceWatch {
  const seen = new Map<string, Kind>();
  const rates = new Map<string, readonly Rate[]>();
  let products: readonly Product[] | undefined;
  let nextLook = Number.NEGATIVE_INFINITY;

  const isPriced = (kind: Kind): boolean => {
    const known = rates.get(kind.plan);
    if (known === undefined || products === undefined) return true;
    const now = clock.now();
    const billing = products.filter((product) => {
      const id = metricAt(product, now);
      return id !== undefined && kind.metricIds.includes(id);
    });
    return billing.some(({ id }) =>
      known.some((rate) => rate.productId === id && concerns(rate, kind)),
    );
  };

  return {
    see: (plan, event, { ids, required }) => {
      const values = groupValues(event, required);
      const key = JSON.stringify([plan, event.metric, values]);
      if (seen.has(key) || seen.size >= MAX_SEEN) return;
      const { metric, sku } = event;
      seen.set(key, { plan, metric, ...(sku !== undefined && { sku }), values, metricIds: ids });
    },
    look: async (signal) => {
      if (seen.size === 0 || clock.monotonic() < nextLook) return;
      nextLook = clock.monotonic() + LOOK_EVERY_MS;
      const listed = await listProducts(client, signal);
      if (listed.kind !== 'products') return;
      products = listed.products;
      const at = new Date(clock.now()).toISOString();
      for (const card of new Set([...seen.values()].map(({ plan }) => plan))) {
        const body = { rate_card_id: card, at };
        const path = '/v1/contract-pricing/rate-cards/getRates';
        const list = await client.list(path, body, signal);
        if (list.kind === 'list') rates.set(card, list.items.map(readRate));
      }
    },
    unpriced: () => {
      const found = new Map<string, UnpricedUsage>();
      for (const kind of seen.values()) {
        if (isPriced(kind)) continue;
        const { plan, metric, sku } = kind;
        const usage = { plan, metric, ...(sku !== undefined && { sku }) };
        found.set(JSON.stringify(usage), usage);
      }
      return [...found.values()];
    },
  };
}

/** A rate for particular values of some keys prices usage with these values; others it does not concern. */
function concerns({ values }: Rate, kind: Kind): boolean {
  return Object.entries(values).every(
    ([key, value]) => kind.values[key] === undefined || kind.values[key] === value,
  );
}

/** Prices for one tenant cluster alone are beyond what is looked at. */
function groupValues(event: UsageEvent, required: readonly string[]): Record<string, string> {
  const { region, sku, project, resource_id, dimensions } = event;
  const own: Readonly<Record<string, string | undefined>> = {
    ...dimensions,
    region,
    sku,
    project,
    resource_id,
  };
  const keys = required.filter((key) => key !== 'tenant_cluster' && key !== 'value');
  return Object.fromEntries(keys.map((key) => [key, own[key] ?? ABSENT]));
}

function readRate(object: JsonObject): Rate {
  const values = object['pricing_group_values'];
  const entries = Object.entries(isObject(values) ? values : {});
  return {
    productId: textOf(object, 'product_id') ?? '',
    values: Object.fromEntries(entries.map(([key, value]) => [key, String(value)])),
  };
}
