import type { UsageEvent } from '../../model/event.ts';
import { isRecord } from '../../model/is-record.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { UnpricedUsage } from '../prices.ts';
import type { ApiProblem } from '../json-api/answer.ts';
import { type JsonObject, objectOf, objectsOf, textOf } from '../json.ts';
import type { MetronomeMetric } from './billable-metrics.ts';
import { ABSENT } from './metric-definition.ts';
import type { MetronomeClient } from './metronome-client.ts';
import { listProducts, metricAt, type Product } from './products.ts';

/** How long the list of rate cards is used when it has the requested card. */
const FRESH_MS = 300_000;
/** Rate cards without a currency of their own are priced in US cents. */
const DEFAULT_CURRENCY = 'USD';
/** How often the destination reads rate cards for prices. */
const POLL_EVERY_MS = 300_000;
/** The bound of remembered kinds of usage; further kinds are not checked for prices. */
const MAX_SEEN = 2_000;

export interface RateCard {
  readonly id: string;
  readonly name: string;
  /** ISO 4217; undefined when Metronome's name for it shows none. */
  readonly currency: string | undefined;
}

export type RateCardOutcome =
  | { readonly kind: 'card'; readonly card: RateCard }
  | { readonly kind: 'missing' }
  | ApiProblem;

interface ListedCard extends RateCard {
  readonly aliases: readonly {
    readonly name: string;
    readonly from: number;
    readonly to: number;
  }[];
}

/** Finds rate cards by id, alias or name. */
export class RateCards {
  readonly #client: MetronomeClient;
  readonly #clock: Clock;
  #cards: readonly ListedCard[] = [];
  #listedAt = Number.NEGATIVE_INFINITY;

  constructor(client: MetronomeClient, clock: Clock) {
    this.#client = client;
    this.#clock = clock;
  }

  async find(reference: string, signal: AbortSignal): Promise<RateCardOutcome> {
    const known = this.#pick(reference);
    const fresh = this.#clock.monotonic() - this.#listedAt < FRESH_MS;
    if (known !== undefined && fresh) return { kind: 'card', card: known };
    const list = await this.#client.list('/v1/contract-pricing/rate-cards/list', {}, signal);
    if (list.kind !== 'list') return list;
    this.#cards = list.items.map(readCard);
    this.#listedAt = this.#clock.monotonic();
    const card = this.#pick(reference);
    return card === undefined ? { kind: 'missing' } : { kind: 'card', card };
  }

  /** Returns the name that people use for the card with this id. */
  nameOf(id: string): string {
    return this.#cards.find((card) => card.id === id)?.name ?? id;
  }

  #pick(reference: string): RateCard | undefined {
    const now = this.#clock.now();
    return (
      this.#cards.find(({ id }) => id === reference) ??
      this.#cards.find(({ aliases }) =>
        aliases.some(({ name, from, to }) => name === reference && from <= now && now < to),
      ) ??
      this.#cards.find(({ name }) => name === reference)
    );
  }
}

function readCard(object: JsonObject): ListedCard {
  return {
    id: textOf(object, 'id') ?? '',
    name: textOf(object, 'name') ?? '',
    currency: currencyOf(object['fiat_credit_type']),
    aliases: objectsOf(object, 'aliases').map((alias) => ({
      name: textOf(alias, 'name') ?? '',
      from: Date.parse(textOf(alias, 'starting_at') ?? '') || Number.NEGATIVE_INFINITY,
      to: Date.parse(textOf(alias, 'ending_before') ?? '') || Number.POSITIVE_INFINITY,
    })),
  };
}

/** Returns the currency of a fiat credit type, such as `USD (cents)` or `EUR`. */
function currencyOf(creditType: unknown): string | undefined {
  if (!isRecord(creditType)) return DEFAULT_CURRENCY;
  return /^[A-Za-z]{3}\b/.exec(textOf(creditType, 'name') ?? '')?.[0].toUpperCase();
}

interface Kind extends UnpricedUsage {
  /** Group keys and their values, without the tenant cluster. */
  readonly values: Readonly<Record<string, string>>;
  readonly metricIds: readonly string[];
}

interface CardRate {
  readonly productId: string;
  readonly values: Readonly<Record<string, string>>;
}

/**
 * Remembers delivered kinds of usage and finds those that no rate of their rate card prices
 * (docs/how-to/destinations/metronome.md#prices-by-sku-and-capacity-type). A rate of 0 is a price,
 * since somebody set it.
 */
export class MetronomeUnpricedWatch {
  readonly #client: MetronomeClient;
  readonly #clock: Clock;
  readonly #seen = new Map<string, Kind>();
  readonly #rates = new Map<string, readonly CardRate[]>();
  #products: readonly Product[] | undefined;
  #nextPoll = Number.NEGATIVE_INFINITY;

  constructor(client: MetronomeClient, clock: Clock) {
    this.#client = client;
    this.#clock = clock;
  }

  see(plan: string, event: UsageEvent, { ids, required }: MetronomeMetric): void {
    const values = groupValues(event, required);
    const key = JSON.stringify([plan, event.metric, values]);
    if (this.#seen.has(key) || this.#seen.size >= MAX_SEEN) return;
    const { metric, sku } = event;
    this.#seen.set(key, { plan, metric, sku, values, metricIds: ids });
  }

  /** Polls the rate cards of delivered usage. Never fails: it leaves out unreadable cards. */
  async poll(signal: AbortSignal): Promise<void> {
    if (this.#seen.size === 0 || this.#clock.monotonic() < this.#nextPoll) return;
    this.#nextPoll = this.#clock.monotonic() + POLL_EVERY_MS;
    const listed = await listProducts(this.#client, signal);
    if (listed.kind !== 'products') return;
    this.#products = listed.products;
    const at = new Date(this.#clock.now()).toISOString();
    for (const card of new Set([...this.#seen.values()].map(({ plan }) => plan))) {
      const body = { rate_card_id: card, at };
      const path = '/v1/contract-pricing/rate-cards/getRates';
      const list = await this.#client.list(path, body, signal);
      if (list.kind === 'list') this.#rates.set(card, list.items.map(readRate));
    }
  }

  unpriced(): readonly UnpricedUsage[] {
    const found = new Map<string, UnpricedUsage>();
    for (const kind of this.#seen.values()) {
      if (this.#isPriced(kind)) continue;
      const { plan, metric, sku } = kind;
      const usage = { plan, metric, sku };
      found.set(JSON.stringify(usage), usage);
    }
    return [...found.values()];
  }

  #isPriced(kind: Kind): boolean {
    const known = this.#rates.get(kind.plan);
    if (known === undefined || this.#products === undefined) return true;
    const now = this.#clock.now();
    const billing = this.#products.filter((product) => {
      const id = metricAt(product, now);
      return id !== undefined && kind.metricIds.includes(id);
    });
    return billing.some(({ id }) =>
      known.some((rate) => rate.productId === id && concerns(rate, kind)),
    );
  }
}

/**
 * Returns whether a rate prices a kind of usage. A rate names values of some keys and prices only
 * usage with these values.
 */
function concerns({ values }: CardRate, kind: Kind): boolean {
  return Object.entries(values).every(
    ([key, value]) => kind.values[key] === undefined || kind.values[key] === value,
  );
}

/** Returns the group keys' values, without the tenant cluster: its own prices are not checked. */
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

function readRate(object: JsonObject): CardRate {
  const entries = Object.entries(objectOf(object, 'pricing_group_values'));
  return {
    productId: textOf(object, 'product_id') ?? '',
    values: Object.fromEntries(entries.map(([key, value]) => [key, String(value)])),
  };
}
