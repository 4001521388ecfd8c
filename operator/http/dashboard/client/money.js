import { html } from './preact.js';
import { useApi, url } from './api.js';
import { ErrorNotice } from './components.js';
import { number } from './format.js';

const REFRESH_MS = 60_000;

/**
 * What usage costs by the price books, asked for as the rows of usage are that it stands beside.
 * @typedef {{
 *   total: string,
 *   files: { text: string, address: string }[],
 *   column: (name: string, keyOf: (row: any) => string) => { name: string, number: boolean, cell: (row: any) => import('preact').ComponentChildren, value?: (row: any) => number | undefined }[],
 *   notice: import('preact').ComponentChildren,
 * }} Costs
 * `total` is empty where nothing has a price. `column` has one column then and none otherwise: who has no price book sees no
 * money, and no file of it is offered. Rows of usage and of costs with the same key belong together.
 */

/** @param {Record<string, string | undefined> | undefined} asked parameters of /api/v1/costs; undefined asks nothing @returns {Costs} */
export function useCosts(asked) {
  const state = useApi(asked && url('/api/v1/costs', asked), REFRESH_MS);
  const { amounts = [], rows = [], plans_without_prices: without = [] } = state.data ?? {};
  /** @type {Map<string, number>} */
  const digits = new Map(
    amounts.map((/** @type {any} */ amount) => [amount.currency, amount.digits]),
  );
  return {
    total: amountsText(amounts, digits),
    files:
      amounts.length === 0 ? [] : [{ text: 'Costs as CSV', address: url('/api/v1/costs', asked) }],
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
      ${amounts.length > 0 && without.length > 0 && html`<p class="notice">No PriceBook has prices of ${without.length === 1 ? 'the plan' : 'the plans'} ${without.join(', ')}: what was used on ${without.length === 1 ? 'it' : 'them'} is unpriced, not free.</p>`}
    `,
  };
}

/** @param {any[]} rows */
function sumOf(rows) {
  const costs = rows.flatMap(({ cost }) => cost ?? []);
  return costs.length === 0 ? undefined : costs.reduce((sum, cost) => sum + cost, 0);
}

/** Who has never set a price must not be alarmed by it. @param {{ state: ReturnType<typeof useApi> }} properties */
function CostsMissing({ state }) {
  if (state.error === undefined) return null;
  if (state.error.status !== 503) return html`<${ErrorNotice} state=${state} />`;
  return html`<p class="muted">Costs are not shown: ${state.error.message}</p>`;
}

/** Where nothing of a row is charged there is a dash; what has no price is told, for it is not free. @param {any[]} rows @param {Map<string, number>} digits */
function costCell(rows, digits) {
  const text = amountsText(
    rows.filter((row) => row.cost !== undefined),
    digits,
  );
  const unpriced = rows.some((row) => (row.unpriced ?? 0) !== 0);
  if (text === '') return unpriced ? 'unpriced' : '–';
  return unpriced ? `${text} and unpriced usage` : text;
}

/** `1,728.00 EUR`; amounts in several currencies stand beside each other. @param {{ currency: string, cost: number }[]} costs @param {Map<string, number>} digits */
function amountsText(costs, digits) {
  return [...Map.groupBy(costs, ({ currency }) => currency)]
    .map(([currency, of]) => {
      const places = digits.get(currency) ?? 2;
      // In whole minor units, so that sums are exact.
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
