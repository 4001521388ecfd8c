import type { PriceBookSpec, PriceBookStatus } from '../settings/custom-resources.generated.ts';
import type { SettingsStore } from '../settings/settings.ts';
import { type InvalidSpec, invalidSpec } from '../settings/spec-fields.ts';
import type { PriceBook } from '../model/price-book.ts';
import { fixedBefore, pastChange } from '../model/pricing/past.ts';
import type { Clock } from '../telemetry/clock.ts';
import { type ConditionClaim, readyBySpec, stalledClaims } from './conditions.ts';
import type { Acted, ControlledKind } from './controlled-kind.ts';
import {
  type BookIdentity,
  dropSpec,
  storeSpec,
  storedSpec,
  type PriceRecords,
} from './stored-price-books.ts';
import { translatePriceBook } from './price-book-settings.ts';

const LONGEST_LIST = 1024;

/** Wait after a failed write of the prices in force to the ledger. */
const STORE_RETRY_MS = 30_000;

/** Returns the kind PriceBook: the prices of the plan with its name (docs/how-to/costs.md). */
export function priceBooks(options: {
  readonly settings: SettingsStore;
  readonly records: PriceRecords;
  readonly clock: Pick<Clock, 'now'>;
  /** Returns whether a metric of this code is in the catalogue. */
  readonly knowsMetric: (code: string) => boolean;
}): ControlledKind<PriceBookSpec> {
  const { settings, records, clock, knowsMetric } = options;
  /** Uids of the objects with prices in force, by name. */
  const owners = new Map<string, string>();

  const bookInForce = (name: string): PriceBook | undefined =>
    settings.current().pricing.books.find((book) => book.name === name);

  /** Restores the prices in force before a restart. Removes another object's of this name. */
  async function restore({ name, uid }: BookIdentity): Promise<void> {
    if (owners.get(name) === uid) return;
    settings.setPriceBook(name, undefined);
    const spec = await storedSpec(records, { name, uid });
    const translation = spec && translatePriceBook(name, spec);
    if (translation?.kind === 'settings') settings.setPriceBook(name, translation.settings);
    owners.set(name, uid);
  }

  /** Returns why a change of past prices is refused, as the API server does by the last status. */
  function pastProblem(next: PriceBook): InvalidSpec | undefined {
    const before = bookInForce(next.name);
    const change = before && pastChange(before, next, fixedBefore(clock.now()));
    if (change === undefined) return undefined;
    const fix = 'leave them as they are, and add rates that begin on a later day';
    return invalidSpec('PastChanged', `${change}; ${fix}`);
  }

  return {
    resource: { group: 'meterfeed.io', version: 'v1alpha1', plural: 'pricebooks' },
    kind: 'PriceBook',
    promptFields: ['fixedBefore'],

    async act({ name, uid, spec }): Promise<Acted> {
      await restore({ name, uid });
      const inForce = bookInForce(name) !== undefined;
      const translation = translatePriceBook(name, spec);
      if (translation.kind === 'invalid') return { specStatus: { ...translation, inForce } };
      const problem = pastProblem(translation.settings);
      if (problem !== undefined) return { specStatus: { ...problem, inForce } };
      settings.setPriceBook(name, translation.settings);
      const stored = await storeSpec(records, { name, uid, spec });
      const again = stored.kind === 'written' ? {} : { againMs: STORE_RETRY_MS };
      return { specStatus: { kind: 'accepted' }, ...again };
    },

    async remove(name) {
      settings.setPriceBook(name, undefined);
      owners.delete(name);
      const dropped = await dropSpec(records, name);
      return dropped.kind === 'written'
        ? { kind: 'removed' }
        : { kind: 'failed', reason: `cannot delete its prices: ${dropped.message}` };
    },

    report({ name }, specStatus) {
      const book = bookInForce(name);
      const message = `GET /api/v1/costs prices the usage of tenants on plan "${name}" with it`;
      const inForce = { type: 'Ready', status: 'True', reason: 'InForce', message } as const;
      const fields: PriceBookStatus =
        book === undefined
          ? {}
          : // The schema compares with the spec, so a refused one must not become unchangeable.
            {
              prices: book.prices.length,
              fixedBefore: specStatus.kind === 'invalid' ? undefined : fixedBefore(clock.now()),
            };
      return {
        settled: true,
        claims: [
          readyBySpec(specStatus) ?? inForce,
          ...unknownMetrics(book, knowsMetric),
          ...stalledClaims(specStatus),
        ],
        fields,
      };
    },
  };
}

/**
 * Returns `UnknownMetrics` if a price names an unknown metric. A misspelled one leaves usage
 * without a price.
 */
function unknownMetrics(
  book: PriceBook | undefined,
  knowsMetric: (code: string) => boolean,
): readonly ConditionClaim[] {
  const unknown = (book?.prices ?? []).filter(({ metric }) => !knowsMetric(metric));
  if (unknown.length === 0) return [];
  const named = unknown.map(({ name, metric }) => `"${metric}" of price "${name}"`).join(', ');
  const list = named.length > LONGEST_LIST ? `${named.slice(0, LONGEST_LIST)}…` : named;
  const fix = 'give the right one a price (GET /api/v1/catalog lists them) or declare the metric';
  const message = `spec.prices names unknown metrics: ${list}; ${fix}. Until then these prices have no effect`;
  const reason = 'NotInCatalogue';
  return [{ type: 'UnknownMetrics', status: 'True', reason, message, brief: named }];
}
