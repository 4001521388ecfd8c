import { html, useMemo } from '../preact.js';
import { useApi, url } from '../api.js';
import { StackedChart } from '../chart.js';
import { Badge, Card, DownloadButton, PageHead, Table, ErrorNotice } from '../components.js';
import { quantity, time } from '../format.js';
import { link } from '../location.js';
import { toSeries } from '../series.js';
import { RangePicker, rangeOf } from '../time-range.js';

const REFRESH_MS = 60_000;
const EVENTS_SHOWN = 50;

/** @typedef {import('../time-range.js').TimeRange} TimeRange */

/** One row per tenant, one column per metric. @param {{ range: TimeRange }} properties */
export function TenantUsage({ range }) {
  const { from, to } = range;
  const usage = useApi(url('/api/v1/usage', { group_by: 'tenant', from, to }), REFRESH_MS);
  const catalog = useApi('/api/v1/catalog');
  const rows = usage.data?.rows ?? [];
  const codes = metricsOf(rows, catalog.data);
  const tenants = [...Map.groupBy(rows, (/** @type {any} */ row) => row.tenant)].map(
    ([tenant, of]) => ({
      tenant,
      amounts: new Map(of.map((/** @type {any} */ row) => [row.metric, row.quantity])),
    }),
  );
  return html`
    <${ErrorNotice} state=${usage} />
    ${usage.data?.note && html`<p class="notice warn">${usage.data.note}</p>`}
    ${
      usage.data &&
      html`
      <${Table} caption=${`Sums from ${time(range.from)} to ${time(range.to)}`} rows=${tenants}
        empty="No usage in this time. If tenants run, look at the gaps and at the log of discovery."
        columns=${[
          {
            name: 'Tenant',
            cell: (/** @type {any} */ row) =>
              html`<a href=${link(['tenants', row.tenant], { range: range.name })}>${row.tenant}</a>`,
          },
          ...codes.map(({ code, name, unit }) => ({
            name: `${name} (${unit})`,
            number: true,
            cell: (/** @type {any} */ row) =>
              row.amounts.has(code) ? quantity(row.amounts.get(code)) : '–',
          })),
        ]} />
      <${DownloadButton} name=${`usage-${range.from.slice(0, 10)}.csv`} address=${url('/api/v1/usage', { group_by: 'tenant', format: 'csv', from, to })}>Download as CSV</${DownloadButton}>
    `
    }
  `;
}

/** The metrics that occur, in the order and with the names of the catalogue. @param {any[]} rows @param {any} catalog */
function metricsOf(rows, catalog) {
  const units = new Map(rows.map((row) => [row.metric, row.unit]));
  const known = (catalog?.metrics ?? []).filter((/** @type {any} */ metric) =>
    units.has(metric.code),
  );
  const codes = new Set(known.map((/** @type {any} */ metric) => metric.code));
  const others = [...units]
    .filter(([code]) => !codes.has(code))
    .map(([code, unit]) => ({ code, name: code, unit }));
  return /** @type {{ code: string, name: string, unit: string }[]} */ ([...known, ...others]);
}

/** @param {{ query: URLSearchParams }} properties */
export function TenantsPage({ query }) {
  const range = rangeOf(query, Date.now());
  const tenants = useApi('/api/v1/tenants', REFRESH_MS);
  return html`
    <${PageHead} title="Tenants"><${RangePicker} range=${range} /></${PageHead}>
    <${Card} title="Who is billed">
      <${ErrorNotice} state=${tenants} />
      ${
        tenants.data &&
        html`
        <${Table} caption="Tenants known now" rows=${tenants.data.tenants}
          empty="No tenant cluster was found. The log says '[discovery] found 0' and why: wrong labels, a missing permission, or WATCH_NAMESPACES."
          columns=${[
            {
              name: 'Tenant',
              cell: (/** @type {any} */ one) =>
                html`<a href=${link(['tenants', one.id], { range: range.name })}>${one.id}</a>`,
            },
            { name: 'Name', cell: (/** @type {any} */ one) => one.display_name },
            {
              name: 'Tenant clusters',
              number: true,
              cell: (/** @type {any} */ one) => one.clusters.length,
            },
            { name: 'Plan', cell: (/** @type {any} */ one) => one.plan ?? 'default' },
            { name: 'Class', cell: (/** @type {any} */ one) => one.class ?? '–' },
            { name: 'Project', cell: (/** @type {any} */ one) => one.project ?? '–' },
            { name: 'Since', cell: (/** @type {any} */ one) => time(one.created_at) },
          ]} />
      `
      }
    </${Card}>
    <${Card} title="What they used"><${TenantUsage} range=${range} /></${Card}>
  `;
}

/** @param {{ id: string, query: URLSearchParams }} properties */
export function TenantPage({ id, query }) {
  const range = rangeOf(query, Date.now());
  const { from, to } = range;
  const tenant = useApi(`/api/v1/tenants/${encodeURIComponent(id)}`, REFRESH_MS);
  const usage = useApi(
    url('/api/v1/usage', { tenant: id, group_by: 'sku,tenant_cluster', from, to }),
    REFRESH_MS,
  );
  return html`
    <${PageHead} title=${tenant.data?.display_name ?? id}><${RangePicker} range=${range} /></${PageHead}>
    ${
      tenant.error?.status === 404
        ? html`<p class="notice">No tenant cluster of <code>${id}</code> exists now. What it used before is below.</p>`
        : html`<${ErrorNotice} state=${tenant} />`
    }
    ${tenant.data && html`<${TenantFacts} tenant=${tenant.data} />`}
    <${TenantChart} id=${id} range=${range} metric=${query.get('metric') ?? 'tenant_gpu_hours'} />
    <${Card} title="Usage">
      <${ErrorNotice} state=${usage} />
      ${
        usage.data &&
        html`
        <${Table} caption=${`Sums from ${time(from)} to ${time(to)}`} rows=${usage.data.rows} empty="Nothing was used in this time."
          columns=${[
            { name: 'Metric', cell: (/** @type {any} */ row) => row.metric },
            { name: 'SKU', cell: (/** @type {any} */ row) => row.sku || '–' },
            { name: 'Tenant cluster', cell: (/** @type {any} */ row) => row.tenant_cluster || '–' },
            {
              name: 'Quantity',
              number: true,
              cell: (/** @type {any} */ row) => quantity(row.quantity),
            },
            { name: 'Unit', cell: (/** @type {any} */ row) => row.unit },
          ]} />
        <${DownloadButton} name=${`usage-${id}.csv`} address=${url('/api/v1/usage', { tenant: id, group_by: 'sku,tenant_cluster', format: 'csv', from, to })}>Usage as CSV</${DownloadButton}>
        <${DownloadButton} name=${`events-${id}.ndjson`} address=${url('/api/v1/events', { tenant: id, from, to })}>Events as NDJSON</${DownloadButton}>
        <${DownloadButton} name=${`events-${id}.csv`} address=${url('/api/v1/events', { tenant: id, format: 'csv', from, to })}>Events as CSV</${DownloadButton}>
      `
      }
    </${Card}>
    <${RecentEvents} id=${id} />
  `;
}

/** @param {{ tenant: any }} properties */
function TenantFacts({ tenant }) {
  const facts = [
    ['Billed as', tenant.id],
    ['Plan', tenant.plan ?? 'the default plan'],
    ['Currency', tenant.currency],
    ['Project', tenant.project],
    ['Class', tenant.class],
    ['Email', tenant.email],
    ['Billing state', tenant.billing_state],
    ...Object.entries(tenant.provider_ids ?? {}).map(([system, id]) => [
      `${system.charAt(0).toUpperCase()}${system.slice(1)} customer`,
      id,
    ]),
    ['Since', time(tenant.created_at)],
  ].filter(([, value]) => typeof value === 'string');
  return html`
    <div class="grid">
      <${Card} title="Tenant">
        <dl class="facts">${facts.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>
      </${Card}>
      <${Card} title="Tenant clusters">
        <${Table} caption="Billed to this tenant" rows=${tenant.tenant_clusters} empty="None now."
          columns=${[
            { name: 'Tenant cluster', cell: (/** @type {any} */ one) => one.id },
            { name: 'Namespace', cell: (/** @type {any} */ one) => one.namespace },
            { name: 'Since', cell: (/** @type {any} */ one) => time(one.created_at) },
            {
              name: 'Metered',
              cell: (/** @type {any} */ one) =>
                one.excluded ? html`<${Badge} tone="warn">not metered</${Badge}>` : 'yes',
            },
          ]} />
      </${Card}>
    </div>
  `;
}

/** @param {{ id: string, range: TimeRange, metric: string }} properties */
function TenantChart({ id, range, metric }) {
  const { from, to } = range;
  const usage = useApi(
    url('/api/v1/usage', { tenant: id, metric, group_by: `sku,${range.bucket}`, from, to }),
    REFRESH_MS,
  );
  const rows = usage.data?.rows;
  const drawn = useMemo(
    () => (rows === undefined ? undefined : toSeries(rows, 'sku', range)),
    [rows, from, to],
  );
  return html`
    <${Card} title="Over time">
      <${ErrorNotice} state=${usage} />
      ${drawn && html`<${StackedChart} title=${metric} unit=${`${rows[0]?.unit ?? ''} per ${range.bucket}`} ...${drawn} />`}
      <p><a href=${link(['usage'], { tenant: id, range: range.name })}>Other metrics of this tenant</a></p>
    </${Card}>
  `;
}

/** The newest events, each of which can be explained. @param {{ id: string }} properties */
function RecentEvents({ id }) {
  const window = useApi(url('/api/v1/windows', { limit: 1 }));
  const report = window.data?.windows[0];
  const events = useApi(
    report &&
      url('/api/v1/events', {
        tenant: id,
        from: report.window_start,
        to: report.window_end,
        limit: EVENTS_SHOWN,
      }),
  );
  const rows = events.data?.items ?? [];
  if (events.error !== undefined || report === undefined) return null;
  return html`
    <${Card} title="Events of the last window">
      <${Table} caption=${`Window until ${time(report.window_end)}`} rows=${rows} empty="None in this window."
        columns=${[
          {
            name: 'Event',
            cell: (/** @type {any} */ event) =>
              html`<a href=${link(['events', event.id])}>${event.id}</a>`,
          },
          { name: 'Metric', cell: (/** @type {any} */ event) => event.metric },
          { name: 'SKU', cell: (/** @type {any} */ event) => event.sku ?? '–' },
          {
            name: 'Quantity',
            number: true,
            cell: (/** @type {any} */ event) => quantity(event.quantity),
          },
          { name: 'Unit', cell: (/** @type {any} */ event) => event.unit },
        ]} />
    </${Card}>
  `;
}
