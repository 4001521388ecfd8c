import type { PriceBookSpec, PriceBookStatus } from '../config/custom-resources.generated.ts';
import type { SettingsStore } from '../config/settings.ts';
import { type InvalidSpec, invalidSpec } from '../config/spec-fields.ts';
import type { PriceBook } from '../model/price-book.ts';
import { fixedBefore, pastChange } from '../pricing/past.ts';
import type { Clock } from '../telemetry/clock.ts';
import { readyBySpec, stalledClaims } from './conditions.ts';
import type { ControlledKind } from './controlled-kind.ts';
import { translatePriceBook } from './price-book-settings.ts';

export interface PriceBookOptions {
  readonly settings: SettingsStore;
  readonly clock: Pick<Clock, 'now'>;
}

/** PriceBook: what usage costs on the plan that it is named after (docs/costs.md). */
export function priceBooks({ settings, clock }: PriceBookOptions): ControlledKind<PriceBookSpec> {
  const bookInForce = (name: string): PriceBook | undefined =>
    settings.current().pricing.books.find((book) => book.name === name);

  /** The API server refuses it too, as far as the status that it has reaches. */
  function pastProblem(next: PriceBook): InvalidSpec | undefined {
    const before = bookInForce(next.name);
    const change = before && pastChange(before, next, fixedBefore(clock.now()));
    if (change === undefined) return undefined;
    const mend = 'leave them as they are, and add rates that begin on a later day';
    return invalidSpec('PastChanged', `${change}; ${mend}`);
  }

  return {
    resource: { group: 'meterfeed.io', version: 'v1alpha1', plural: 'pricebooks' },
    kind: 'PriceBook',
    promptFields: ['fixedBefore'],

    async act({ name, spec }) {
      const inForce = bookInForce(name) !== undefined;
      const translation = translatePriceBook(name, spec);
      if (translation.kind === 'invalid') return { specStatus: { ...translation, inForce } };
      const problem = pastProblem(translation.settings);
      if (problem !== undefined) return { specStatus: { ...problem, inForce } };
      settings.setPriceBook(name, translation.settings);
      return { specStatus: { kind: 'accepted' } };
    },

    async remove(name) {
      settings.setPriceBook(name, undefined);
      return { kind: 'removed' };
    },

    report({ name }, specStatus) {
      const book = bookInForce(name);
      const message = `GET /api/v1/costs prices the usage of tenants on plan "${name}" by it`;
      const inForce = { type: 'Ready', status: 'True', reason: 'InForce', message } as const;
      const fields: PriceBookStatus =
        book === undefined
          ? {}
          : { prices: book.prices.length, fixedBefore: fixedBefore(clock.now()) };
      return {
        settled: true,
        claims: [readyBySpec(specStatus) ?? inForce, ...stalledClaims(specStatus)],
        fields,
      };
    },
  };
}
