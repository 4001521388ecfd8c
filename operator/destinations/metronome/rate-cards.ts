import type { Clock } from '../../telemetry/clock.ts';
import { isObject, type JsonObject, objectsOf, textOf } from '../json.ts';
import type { MetronomeClient, MetronomeRefusal, MetronomeTrouble } from './metronome-client.ts';

/** A list of rate cards is believed for so long when a card is found in it. */
const FRESH_MS = 300_000;
/** Rate cards without a currency of their own are priced in US cents (facts 3.3). */
const DEFAULT_CURRENCY = 'USD';

export interface RateCard {
  readonly id: string;
  readonly name: string;
  /** ISO 4217; undefined when Metronome names none that can be told. */
  readonly currency: string | undefined;
}

export type RateCardOutcome =
  | { readonly kind: 'card'; readonly card: RateCard }
  | { readonly kind: 'missing' }
  | MetronomeRefusal
  | MetronomeTrouble;

/** Rate cards by what an operator calls them: id, alias or name. */
export interface RateCards {
  find(reference: string, signal: AbortSignal): Promise<RateCardOutcome>;
  /** As people call the card with this id. */
  nameOf(id: string): string;
}

interface ListedCard extends RateCard {
  readonly aliases: readonly {
    readonly name: string;
    readonly from: number;
    readonly to: number;
  }[];
}

export function createRateCards(client: MetronomeClient, clock: Clock): RateCards {
  let cards: readonly ListedCard[] = [];
  let listedAt = Number.NEGATIVE_INFINITY;

  const pick = (reference: string): RateCard | undefined => {
    const now = clock.now();
    return (
      cards.find(({ id }) => id === reference) ??
      cards.find(({ aliases }) =>
        aliases.some(({ name, from, to }) => name === reference && from <= now && now < to),
      ) ??
      cards.find(({ name }) => name === reference)
    );
  };

  return {
    nameOf: (id) => cards.find((card) => card.id === id)?.name ?? id,
    find: async (reference, signal) => {
      const known = pick(reference);
      const fresh = clock.monotonic() - listedAt < FRESH_MS;
      if (known !== undefined && fresh) return { kind: 'card', card: known };
      const list = await client.list('/v1/contract-pricing/rate-cards/list', {}, signal);
      if (list.kind !== 'list') return list;
      cards = list.items.map(readCard);
      listedAt = clock.monotonic();
      const card = pick(reference);
      return card === undefined ? { kind: 'missing' } : { kind: 'card', card };
    },
  };
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

/** Fiat credit types are named `USD (cents)`, `EUR`, … */
function currencyOf(creditType: unknown): string | undefined {
  if (!isObject(creditType)) return DEFAULT_CURRENCY;
  return /^[A-Za-z]{3}\b/.exec(textOf(creditType, 'name') ?? '')?.[0].toUpperCase();
}
