import { html } from './preact.js';
import { useApi, url } from './api.js';
import { ErrorNotice } from './components.js';
import { number } from './format.js';

const REFRESH_MS = 60_000;

/**
 * Costs by the price books, with the filters and keys of the usage beside them. Without prices
 * `total` is empty and `files` and `column` give nothing. A row of usage and a row of costs with
 * the same key belong together.
 * @typedef {{ total: string, files: { text: string, address: string }[], column: (name: string,
 *   keyOf: (row: any) => string) => { name: string, number: boolean, cell: (row: any) =>
 *   import('preact').ComponentChildren, value?: (row: any) => number | undefined }[], notice:
 *   import('preact').ComponentChildren, }} Costs
 */

/**
 * @param {Record<string, string | undefined> | undefined} selection parameters of /api/v1/costs;
 *   undefined asks nothing
 * @returns {Costs}
 */
export function useCosts(selection) {
  const state = useApi(selection && url('/api/v1/costs', selection), REFRESH_MS);
  const { amounts = [], rows = [], plans_without_prices: without = [] } = state.data ?? {};
  const digits = digitsOf(amounts);
  return {
    total: amountsText(amounts, digits),
    files:
      amounts.length === 0
        ? []
        : [{ text: 'Costs as CSV', address: url('/api/v1/costs', selection) }],
    column: (name, keyOf) => {
      if (amounts.length === 0) return [];
      const byKey = Map.groupBy(rows, keyOf);
      const costsOf = (/** @type {any} */ row) => byKey.get(keyOf(row)) ?? [];
      const cell = (/** @type {any} */ row) => costCell(costsOf(row), digits);
      // Amounts in several currencies have no order.
      const value = (/** @type {any} */ row) => sumOf(costsOf(row));
      return [{ name, number: true, cell, ...(amounts.length === 1 && { value }) }];
    },
    notice: html`
      <${CostsMissing} state=${state} />
      ${amounts.length > 0 && without.length > 0 && html`<p class="notice">No PriceBook has prices for ${without.length === 1 ? 'the plan' : 'the plans'} ${without.join(', ')}: usage on ${without.length === 1 ? 'it' : 'them'} is unpriced, not free.</p>`}
    `,
  };
}

/**
 * The fraction digits of each currency.
 * @param {any[]} amounts of /api/v1/costs
 * @returns {Map<string, number>}
 */
export function digitsOf(amounts) {
  return new Map(amounts.map(({ currency, digits }) => [currency, digits]));
}

/** @param {any[]} rows */
function sumOf(rows) {
  const costs = rows.flatMap(({ cost }) => cost ?? []);
  return costs.length === 0 ? undefined : costs.reduce((sum, cost) => sum + cost, 0);
}

/**
 * Why there are no costs. A quiet note while prices are not read yet (503): most readers have none.
 * @param {{ state: ReturnType<typeof useApi> }} properties
 */
function CostsMissing({ state }) {
  if (state.error === undefined) return null;
  if (state.error.status !== 503) return html`<${ErrorNotice} state=${state} />`;
  return html`<p class="muted">Costs are not shown: ${state.error.message}</p>`;
}

/**
 * The cost of a row; a dash when nothing is charged. Unpriced usage is named, because it is not
 * free.
 * @param {any[]} rows
 * @param {Map<string, number>} digits
 */
function costCell(rows, digits) {
  const text = amountsText(
    rows.filter((row) => row.cost !== undefined),
    digits,
  );
  const unpriced = rows.some((row) => (row.unpriced ?? 0) !== 0);
  if (text === '') return unpriced ? 'unpriced' : '–';
  return unpriced ? `${text} and unpriced usage` : text;
}

/**
 * `1,728.00 EUR`; amounts in several currencies stand beside each other.
 * @param {{ currency: string, cost: number }[]} costs
 * @param {Map<string, number>} digits
 */
export function amountsText(costs, digits) {
  return [...Map.groupBy(costs, ({ currency }) => currency)]
    .map(([currency, of]) => {
      const places = digits.get(currency) ?? 2;
      // In minor units, so that sums are exact.
      const minor = of.reduce((sum, { cost }) => sum + Math.round(cost * 10 ** places), 0);
      return `${money(minor / 10 ** places, places)} ${currency}`;
    })
    .join(' + ');
}

/** @param {number} amount @param {number} places */
function money(amount, places) {
  const format = new Intl.NumberFormat('en', {
    minimumFractionDigits: places,
    maximumFractionDigits: places,
  });
  return number(format, amount);
}
