import { html } from './preact.js';
import { useApi, url } from './api.js';
import { Card, ErrorNotice } from './components.js';
import { count, quantity } from './format.js';
import { link } from './location.js';
import { amountsText, digitsOf } from './money.js';
import { useNames } from './names.js';
import { figure, Table, text } from './table.js';

const METRICS = ['tenant_gpu_hours', 'tenant_inference_tokens'];

/**
 * What a million tokens of each model costs in GPUs. Nothing for a month without GPU hours or
 * tokens, and nothing where no tenant has both.
 * @param {{ month: any, tenant: string }} properties
 */
export function TokenCosts({ month: { from, to, rows }, tenant }) {
  const used = new Set(rows.map((/** @type {any} */ row) => row.metric));
  const names = useNames();
  const wanted = METRICS.every((metric) => used.has(metric));
  const costs = useApi(
    wanted ? url('/api/v1/costs', { from, to, tenant, group_by: 'tenant,model' }) : undefined,
  );
  const models = costs.data?.token_costs ?? [];
  // The card of the costs says why there are none (503).
  if (costs.error !== undefined && costs.error.status !== 503)
    return html`<${ErrorNotice} state=${costs} />`;
  if (models.length === 0) return null;
  const digits = digitsOf(costs.data?.amounts ?? []);
  /**
   * @param {string} name
   * @param {(row: any) => number | undefined} of
   * @param {(value: number, row: any) => string} shown
   */
  const money = (name, of, shown) =>
    figure(name, (row) => valueText(of(row), (value) => shown(value, row)), of);
  const total = (/** @type {number} */ cost, /** @type {any} */ { currency }) =>
    amountsText([{ currency, cost }], digits);
  const each = (/** @type {number} */ cost, /** @type {any} */ { currency }) =>
    `${quantity(cost)} ${currency}`;
  return html`
    <${Card} title="Tokens against GPUs">
      <${Table} caption="GPU hours of a tenant, divided among its models by tokens" rows=${models} empty=""
        columns=${[
          ...(tenant === '' ? [text('Tenant', (row) => names.tenant(row.tenant))] : []),
          text('Model', (row) => row.model || 'none'),
          figure('Tokens', (row) => count(row.tokens)),
          money('GPUs', (row) => row.gpu_cost, total),
          money('GPUs per million', (row) => row.gpu_cost_per_million, each),
          money('Price per million', (row) => row.price_per_million, each),
          money('Margin', (row) => row.margin, total),
        ]} />
      <p class="muted"><a href=${link(['docs', 'how-to', 'costs.md'])}>How the cost of tokens is found</a></p>
    </${Card}>
  `;
}

/** @param {number | undefined} value @param {(value: number) => string} shown */
function valueText(value, shown) {
  return value === undefined ? 'unknown' : shown(value);
}
