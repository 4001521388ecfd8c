import { html } from './preact.js';
import { useApi, url } from './api.js';
import { ErrorNotice } from './components.js';
import { Downloads } from './downloads.js';
import { decimalsByUnit, noUsageText, quantity, time } from './format.js';
import { useCosts } from './money.js';
import { TenantLink, useNames } from './names.js';
import { SumLink } from './sums.js';
import { Table, text } from './table.js';
import { rangeQuery } from './time-range.js';

const REFRESH_MS = 60_000;

/**
 * One row per tenant, one column per metric.
 * @param {{ range: import('./time-range.js').TimeRange }} properties
 */
export function TenantUsage({ range }) {
  const { from, to } = range;
  const names = useNames();
  const usage = useApi(url('/api/v1/usage', { group_by: 'tenant', from, to }), REFRESH_MS);
  const costs = useCosts({ group_by: 'tenant', from, to });
  const rows = usage.data?.rows ?? [];
  const tenants = [...Map.groupBy(rows, (/** @type {any} */ row) => row.tenant)].map(
    ([tenant, of]) => ({
      tenant,
      amounts: new Map(of.map((/** @type {any} */ row) => [row.metric, row.quantity])),
    }),
  );
  return html`
    <${ErrorNotice} state=${usage} />
    ${costs.notice}
    ${usage.data?.note && html`<p class="notice warn">${usage.data.note}</p>`}
    ${
      usage.data &&
      html`
      <${Table} caption=${`Sums from ${time(from)} to ${time(to)}`} rows=${tenants}
        empty=${`${noUsageText(usage.data)} If tenants run, see Gaps and the log of discovery.`}
        columns=${[
          text(
            'Tenant',
            (row) => html`<${TenantLink} id=${row.tenant} query=${rangeQuery(range)} />`,
            (row) => `${names.tenant(row.tenant)} ${row.tenant}`,
          ),
          ...costs.column('Cost', ({ tenant }) => tenant),
          ...metricColumns(rows, names, range),
        ]} />
      <${Downloads} files=${[...costs.files, { text: 'Usage as CSV', address: url('/api/v1/usage', { group_by: 'tenant', from, to }) }]} />
    `
    }
  `;
}

/**
 * The metrics that occur, in the order and with the names of the catalogue.
 * @param {any[]} rows
 * @param {import('./names.js').Names} names
 * @param {{ from: string, to: string }} range
 */
function metricColumns(rows, names, { from, to }) {
  const byMetric = Map.groupBy(rows, (row) => row.metric);
  const order = new Map(names.metrics.map(({ code }, index) => [code, index]));
  const place = (/** @type {string} */ code) => order.get(code) ?? order.size;
  return [...byMetric]
    .toSorted(([a], [b]) => place(a) - place(b))
    .map(([metric, of]) => {
      const unit = of[0].unit;
      const decimals = decimalsByUnit(of).get(unit);
      const name = names.metricWithUnit(metric, unit);
      return {
        name,
        number: true,
        value: (/** @type {any} */ { amounts }) => amounts.get(metric),
        cell: (/** @type {any} */ { tenant, amounts }) =>
          amounts.has(metric)
            ? html`<${SumLink} of=${{ metric, tenant, from, to }} label=${`${name} of ${names.tenant(tenant)}`} text=${quantity(amounts.get(metric), decimals)} />`
            : '–',
      };
    });
}
