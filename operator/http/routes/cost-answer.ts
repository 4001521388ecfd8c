import type { Response } from 'express';
import { moneyText } from '../../model/pricing/money.ts';
import type { Cost, CostRow } from '../../billing/usage/cost-sums.ts';
import { costAmounts, costTotals } from '../../billing/usage/cost-totals.ts';
import type { TokenCost } from '../../billing/usage/token-costs.ts';
import type { TimeRange } from '../../model/window.ts';
import { type CsvFile, sendCsv } from '../csv.ts';
import { jsonWithDecimals } from '../presentation.ts';
import { sendNdjson, sendRows } from '../stream-lines.ts';

/** What the usage of a range costs. */
export interface CostAnswer {
  readonly range: TimeRange;
  readonly groupBy: readonly string[];
  readonly rows: readonly CostRow[];
  readonly note?: string;
  /** About keys of `group_by` that may be misspelled. */
  readonly warnings?: readonly string[];
  /** Plans with usage and without a PriceBook. */
  readonly plansWithoutPrices: readonly string[];
}

/** Sends an answer in the requested format. */
export const COST_SENDERS = { json: sendJson, csv: sendTable, ndjson: sendLines } as const;

/** `file` is the CSV format of the request. */
function sendTable(
  response: Response,
  answer: CostAnswer & { readonly file: CsvFile },
): Promise<void> {
  const { groupBy, rows, file } = answer;
  const currencies = new Set(rows.flatMap(({ currency }) => currency ?? []));
  return sendCsv(response, file, {
    kind: 'costs',
    currency: [...currencies].toSorted().join('-'),
    columns: [...groupBy, 'metric', 'unit', 'currency', 'quantity', 'unpriced', 'cost', 'events'],
    figures: ['quantity', 'unpriced', 'cost'],
    rows: rows.map(({ keys, metric, unit, currency = '', quantity, ...row }) => {
      const { unpriced = '', cost, events } = row;
      const money = cost === undefined ? '' : textOf(cost);
      return [...keys, metric, unit, currency, quantity, unpriced, money, String(events)];
    }),
  });
}

function sendLines(response: Response, { groupBy, rows }: CostAnswer): Promise<void> {
  return sendNdjson(
    response,
    rows.values().map((row) => rowJson(groupBy, row)),
  );
}

/** `tokenCosts` is absent from the answer if empty. */
function sendJson(
  response: Response,
  answer: CostAnswer & { readonly tokenCosts: readonly TokenCost[] },
): Promise<void> {
  const { range, groupBy, rows, note, warnings, plansWithoutPrices } = answer;
  const models = answer.tokenCosts.map(tokenCostJson);
  const unpriced = plansWithoutPrices.toSorted();
  const head = {
    from: new Date(range.from).toISOString(),
    to: new Date(range.to).toISOString(),
    group_by: groupBy,
    events: rows.reduce((sum, { events }) => sum + events, 0),
    note,
    warnings,
    ...(unpriced.length > 0 && { plans_without_prices: unpriced }),
  };
  const amounts = costAmounts(rows).map(({ currency, cost }) =>
    jsonWithDecimals({ currency, digits: cost.digits }, { cost: textOf(cost) }),
  );
  const totals = costTotals(rows).map((total) => figuresJson({}, total));
  const texts = rows.values().map((row) => rowJson(groupBy, row));
  const lists = { amounts, totals, ...(models.length > 0 && { token_costs: models }) };
  return sendRows(response, head, texts, lists);
}

function rowJson(groupBy: readonly string[], row: CostRow): string {
  return figuresJson(Object.fromEntries(groupBy.map((key, index) => [key, row.keys[index]])), row);
}

function figuresJson(keys: object, row: Omit<CostRow, 'keys'>): string {
  const { metric, unit, currency, events, quantity, unpriced, cost } = row;
  return jsonWithDecimals(
    { ...keys, metric, unit, currency, events },
    { quantity, unpriced, cost: cost && textOf(cost) },
  );
}

function tokenCostJson({ tenant, model, currency, tokens, ...figures }: TokenCost): string {
  const { gpuCost, gpuCostPerMillion, pricePerMillion, margin } = figures;
  return jsonWithDecimals(
    { tenant, model, currency },
    {
      tokens,
      gpu_cost: textOf(gpuCost),
      gpu_cost_per_million: gpuCostPerMillion,
      price_per_million: pricePerMillion,
      margin: margin && textOf(margin),
    },
  );
}

function textOf({ minorUnits, digits }: Cost): string {
  return moneyText(minorUnits, digits);
}
