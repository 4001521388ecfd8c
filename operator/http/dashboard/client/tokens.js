import { html } from './preact.js';
import { useApi, url } from './api.js';
import { Card, ErrorNotice } from './components.js';
import { Downloads } from './downloads.js';
import { quantity, time } from './format.js';
import { useCosts } from './money.js';
import { useNames } from './names.js';
import { figure, Table, text } from './table.js';

const REFRESH_MS = 60_000;
const TOKENS = 'tenant_inference_tokens';
/** Prices are by the million too. */
const MILLION = 1_000_000;

/**
 * The tokens of one or all tenants by model and kind, and their costs; hidden when there are none.
 * @param {{ tenant?: string, range: import('./time-range.js').TimeRange }} properties
 */
export function Tokens({ tenant = '', range: { from, to } }) {
  const names = useNames();
  const selection = { metric: TOKENS, tenant, group_by: 'model,token_type', from, to };
  const tokens = useApi(url('/api/v1/usage', selection), REFRESH_MS);
  const rows = tokens.data?.rows ?? [];
  const costs = useCosts(rows.length === 0 ? undefined : selection);
  if (rows.length === 0 && tokens.error === undefined) return null;
  const millions = (/** @type {any} */ { quantity: count }) => quantity(count / MILLION);
  const [total] = tokens.data?.totals ?? [];
  const modelOf = (/** @type {any} */ row) => names.value('model', row.model);
  const kindOf = (/** @type {any} */ row) => names.value('token_type', row.token_type);
  return html`
    <${Card} title=${total ? `Tokens: ${millions(total)} million` : 'Tokens'}>
      <${ErrorNotice} state=${tokens} />
      ${costs.notice}
      ${
        total &&
        html`
        <${Table} caption=${`Tokens from ${time(from)} to ${time(to)}`} rows=${rows} empty="None."
          columns=${[
            text('Model', modelOf, modelOf),
            text('Kind', kindOf, kindOf),
            figure('Million tokens', millions, (row) => row.quantity),
            ...costs.column('Cost', (row) => [row.model, row.token_type].join('\0')),
          ]} />
        <${Downloads} files=${[...costs.files, { text: 'Tokens as CSV', address: url('/api/v1/usage', selection) }]} />
      `
      }
    </${Card}>
  `;
}
