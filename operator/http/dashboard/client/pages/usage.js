import { html, useMemo } from '../preact.js';
import { useApi, url } from '../api.js';
import { StackedChart } from '../chart.js';
import { Card, DownloadButton, PageHead, Table, ErrorNotice } from '../components.js';
import { count, quantity } from '../format.js';
import { link, setQuery } from '../location.js';
import { toSeries, totalsBy } from '../series.js';
import { RangePicker, rangeOf } from '../time-range.js';

const REFRESH_MS = 60_000;
const DEFAULT_METRIC = 'tenant_gpu_hours';

const KEYS = [
  ['tenant', 'Tenant'],
  ['sku', 'SKU'],
  ['tenant_cluster', 'Tenant cluster'],
  ['project', 'Project'],
  ['capacity_type', 'Capacity type'],
  ['billing_mode', 'Billing mode'],
  ['tenant_class', 'Tenant class'],
  ['gpu_type', 'GPU type'],
  ['gpu_profile', 'GPU profile'],
  ['region', 'Region'],
  ['zone', 'Zone'],
  ['namespace', 'Namespace'],
  ['source', 'Source'],
];

/** One metric over time, split by any key. @param {{ query: URLSearchParams }} properties */
export function UsagePage({ query }) {
  const range = rangeOf(query, Date.now());
  const { from, to } = range;
  const metric = query.get('metric') ?? DEFAULT_METRIC;
  const key = query.get('by') ?? 'tenant';
  const tenant = query.get('tenant') ?? '';
  const catalog = useApi('/api/v1/catalog');
  const tenants = useApi('/api/v1/tenants');
  const asked = { metric, tenant, from, to };
  const usage = useApi(
    url('/api/v1/usage', { ...asked, group_by: `${key},${range.bucket}` }),
    REFRESH_MS,
  );
  const rows = usage.data?.rows;
  const drawn = useMemo(
    () => (rows === undefined ? undefined : toSeries(rows, key, range)),
    [rows, key, from, to],
  );
  const unit = rows?.[0]?.unit ?? '';
  const metrics = (catalog.data?.metrics ?? []).map((/** @type {any} */ one) => [
    one.code,
    `${one.name} (${one.unit})`,
  ]);
  const ids = (tenants.data?.tenants ?? []).map((/** @type {any} */ one) => [one.id, one.id]);
  const totals = rows === undefined ? [] : totalsBy(rows, key);
  const keyName = KEYS.find(([value]) => value === key)?.[1] ?? key;
  return html`
    <${PageHead} title="Usage"><${RangePicker} range=${range} /></${PageHead}>
    <div class="controls">
      <${Choice} label="Metric" value=${metric} name="metric" options=${withChosen(metrics, metric)} />
      <${Choice} label="Split by" value=${key} name="by" options=${withChosen(KEYS, key)} />
      <${Choice} label="Tenant" value=${tenant} name="tenant" options=${[['', 'All tenants'], ...(tenant === '' ? ids : withChosen(ids, tenant))]} />
    </div>
    <${ErrorNotice} state=${usage} />
    ${usage.data?.note && html`<p class="notice warn">${usage.data.note}</p>`}
    ${drawn && html`<${Card}><${StackedChart} title=${`${metric} by ${keyName.toLowerCase()}`} unit=${`${unit} per ${range.bucket}`} ...${drawn} /></${Card}>`}
    ${
      usage.data &&
      html`
      <${Card} title="Sums">
        <${Table} caption=${`${metric}, ${count(usage.data.events)} events`} rows=${totals} empty="Nothing was measured in this time."
          columns=${[
            {
              name: keyName,
              cell: (/** @type {[string, number]} */ [value]) =>
                key === 'tenant'
                  ? html`<a href=${link(['tenants', value], { range: range.name })}>${value}</a>`
                  : value || 'none',
            },
            {
              name: unit === '' ? 'Quantity' : unit,
              number: true,
              cell: (/** @type {[string, number]} */ [, sum]) => quantity(sum),
            },
          ]} />
        <${DownloadButton} name=${`usage-${metric}.csv`} address=${url('/api/v1/usage', { ...asked, group_by: `${key},${range.bucket}`, format: 'csv' })}>Sums as CSV</${DownloadButton}>
        <${DownloadButton} name=${`events-${metric}.ndjson`} address=${url('/api/v1/events', asked)}>Events as NDJSON</${DownloadButton}>
        <${DownloadButton} name=${`events-${metric}.csv`} address=${url('/api/v1/events', { ...asked, format: 'csv' })}>Events as CSV</${DownloadButton}>
      </${Card}>
    `
    }
  `;
}

/** A link may name something that is not in the list. @param {string[][]} options @param {string} chosen */
function withChosen(options, chosen) {
  return options.some(([value]) => value === chosen) ? options : [...options, [chosen, chosen]];
}

/** @param {{ label: string, name: string, value: string, options: string[][] }} properties */
function Choice({ label, name, value, options }) {
  return html`
    <label class="field">
      ${label}
      <select value=${value} onChange=${(/** @type {any} */ event) => setQuery({ [name]: event.currentTarget.value })}>
        ${options.map(([one, text]) => html`<option value=${one} selected=${one === value}>${text}</option>`)}
      </select>
    </label>
  `;
}
