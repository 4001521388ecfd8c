import { html } from '../preact.js';
import { useApi, url } from '../api.js';
import { BudgetCard } from '../budget.js';
import { CopyButton } from '../buttons.js';
import { Badge, Card, Choice, ErrorNotice, PageHead } from '../components.js';
import { Downloads } from '../downloads.js';
import { decimalsByUnit, noUsageText, quantity, time } from '../format.js';
import { link, setQuery } from '../location.js';
import { useCosts } from '../money.js';
import { ClusterName, useNames } from '../names.js';
import { SumLink } from '../sums.js';
import { figure, Table, text } from '../table.js';
import { monthOf, RangePicker, rangeOf } from '../time-range.js';
import { Tokens } from '../tokens.js';
import { State } from './enforcement.js';
import { UsageChart } from './usage.js';

const REFRESH_MS = 60_000;
const FIRST_METRIC = 'tenant_gpu_hours';

/** One tenant. @param {{ id: string, query: URLSearchParams, status: any }} properties */
export function TenantPage({ id, query, status }) {
  const names = useNames();
  const range = rangeOf(query, Date.now());
  const { from, to } = range;
  const tenant = useApi(`/api/v1/tenants/${encodeURIComponent(id)}`, REFRESH_MS);
  const usage = useApi(
    url('/api/v1/usage', { tenant: id, group_by: 'sku,tenant_cluster', from, to }),
    REFRESH_MS,
  );
  const codes = [...new Set((usage.data?.rows ?? []).map((/** @type {any} */ row) => row.metric))];
  const metric =
    query.get('metric') ??
    (codes.length === 0 || codes.includes(FIRST_METRIC) ? FIRST_METRIC : String(codes[0]));
  const options = [...new Set([metric, ...codes])].map((code) => [code, names.metric(code)]);
  const month = range.name === 'last-month' ? monthOf(Date.now(), 1) : monthOf(Date.now(), 0);
  return html`
    <${PageHead} title=${tenant.data?.display_name ?? names.tenant(id)}>
      <a class="button" href=${link(['months', month], { tenant: id })}>Month, comparison and gaps</a>
      <${RangePicker} range=${range} />
    </${PageHead}>
    ${
      tenant.error?.status === 404
        ? html`<p class="notice">No tenant cluster of ${names.tenant(id)} exists now. What it used before is below.</p>`
        : html`<${ErrorNotice} state=${tenant} />`
    }
    ${tenant.data && html`<${Refusal} tenant=${tenant.data} mode=${status.data?.enforcement_mode} />`}
    <div class="controls">
      <${Choice} label="Metric" value=${metric} options=${options} onChoose=${(/** @type {string} */ code) => setQuery({ metric: code })} />
    </div>
    ${status.data && html`<${UsageChart} selection=${{ metric, tenant: id, from, to }} by=${names.splitOf(metric)} range=${range} windowSeconds=${status.data.window_seconds} />`}
    <${Card} title="Usage">
      <${ErrorNotice} state=${usage} />
      ${usage.data && html`<${TenantSums} id=${id} range=${range} usage=${usage.data} />`}
    </${Card}>
    <${Tokens} tenant=${id} range=${range} />
    ${tenant.data?.budget && html`<${BudgetCard} budget=${tenant.data.budget} />`}
    ${tenant.data && html`<${TenantFacts} tenant=${tenant.data} />`}
  `;
}

/**
 * What is refused to a tenant now. Gateways refuse its requests before the window is closed.
 * @param {{ tenant: any, mode: string | undefined }} properties `mode` is that of the enforcement
 */
function Refusal({ tenant: { billing_state: state, gateway_access: access }, mode }) {
  const refused = [
    ...(state === 'suspended' && mode === 'enforce' ? ['new pods of its tenant clusters'] : []),
    ...(access?.has_access === false ? ['its requests at AI gateways'] : []),
  ];
  if (refused.length === 0) return null;
  const isSpent = access?.reason === 'usage_limit_reached';
  return html`<p class="notice bad" role="alert">Refused: ${refused.join(' and ')}.${isSpent && ' Nothing is left of its budget.'}</p>`;
}

/**
 * Every sum of a tenant, with links to their breakdowns.
 * @param {{ id: string, range: import('../time-range.js').TimeRange, usage: any }} properties
 */
export function TenantSums({ id, range: { from, to }, usage }) {
  const names = useNames();
  const { rows } = usage;
  const costs = useCosts({ tenant: id, group_by: 'sku,tenant_cluster', from, to });
  const decimals = decimalsByUnit(rows);
  const metricOf = (/** @type {any} */ row) => names.metricWithUnit(row.metric, row.unit);
  const skuOf = (/** @type {any} */ row) => row.sku;
  const clusterOf = (/** @type {any} */ { tenant_cluster: id }) =>
    id === '' ? '–' : names.cluster(id);
  return html`
    ${costs.notice}
    <${Table} caption=${`Sums from ${time(from)} to ${time(to)}`} rows=${rows} empty=${noUsageText(usage)}
      columns=${[
        text('Metric', metricOf, metricOf),
        text('SKU', (row) => row.sku || '–', skuOf),
        text('Tenant cluster', clusterOf, clusterOf),
        figure(
          'Quantity',
          (row) =>
            html`<${SumLink} label=${[names.metric(row.metric), row.sku, row.tenant_cluster && names.cluster(row.tenant_cluster)].filter(Boolean).join(', ')} text=${quantity(row.quantity, decimals.get(row.unit))}
              of=${{ metric: row.metric, tenant: id, from, to, sku: row.sku, cluster: row.tenant_cluster }} />`,
        ),
        ...costs.column('Cost', (row) =>
          [row.metric, row.unit, row.sku, row.tenant_cluster].join('\0'),
        ),
      ]} />
    <${Downloads} files=${[
      ...costs.files,
      {
        text: 'Usage as CSV',
        address: url('/api/v1/usage', { tenant: id, group_by: 'sku,tenant_cluster', from, to }),
      },
      { text: 'Events as CSV', address: url('/api/v1/events', { tenant: id, from, to }) },
      {
        text: 'Events as NDJSON',
        address: url('/api/v1/events', { tenant: id, from, to }),
        csv: false,
      },
    ]} />
  `;
}

/** @param {{ tenant: any }} properties */
function TenantFacts({ tenant }) {
  const facts = [
    ['Plan', tenant.plan ?? 'the default plan'],
    ['Currency', tenant.currency],
    ['Project', tenant.project],
    ['Class', tenant.class],
    ['Email', tenant.email],
    ['Billing state', html`<${State} state=${tenant.billing_state} />`],
    ...Object.entries(tenant.provider_ids ?? {}).map(([system, id]) => [
      `${system.charAt(0).toUpperCase()}${system.slice(1)} customer`,
      id && html`<${CopyButton} text=${id} what="customer id" />`,
    ]),
    ['Since', time(tenant.created_at)],
  ].filter(([, value]) => Boolean(value));
  return html`
    <div class="grid">
      <${Card} title="Tenant">
        <dl class="facts">
          <dt>Billed as</dt><dd>${tenant.id} <${CopyButton} text=${tenant.id} what="tenant id" /></dd>
          ${facts.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}
        </dl>
      </${Card}>
      <${Card} title="Tenant clusters">
        <${Table} caption="Billed to this tenant" rows=${tenant.tenant_clusters} empty="None now."
          columns=${[
            text('Tenant cluster', (one) => html`<${ClusterName} id=${one.id} />`),
            text('Namespace', (one) => one.namespace),
            text('Since', (one) => time(one.created_at)),
            text('Metered', (one) =>
              one.excluded ? html`<${Badge} tone="warn">not metered</${Badge}>` : 'yes',
            ),
          ]} />
      </${Card}>
    </div>
  `;
}
