import { html, useMemo } from '../preact.js';
import { url, useApi } from '../api.js';
import { StackedChart } from '../chart.js';
import { Card, Choice, ErrorNotice, PageHead, withChosen } from '../components.js';
import { Downloads } from '../downloads.js';
import { counted, decimalsByUnit, noUsageText, plain, quantity, unitText } from '../format.js';
import { useHoles } from '../holes.js';
import { setQuery } from '../location.js';
import { useCosts } from '../money.js';
import { ClusterName, keyName, KEYS, TenantChoice, TenantLink, useNames } from '../names.js';
import { toSeries } from '../series.js';
import { SumLink } from '../sums.js';
import { figure, Table, text } from '../table.js';
import { bucketText, rangeOf, RangePicker, rangeQuery } from '../time-range.js';

const REFRESH_MS = 60_000;
const DEFAULT_METRIC = 'tenant_gpu_hours';

/**
 * The API's filter for each key. Sums of other keys have no breakdown.
 * @type {Record<string, string>}
 */
const FILTERS = {
  tenant: 'tenant',
  sku: 'sku',
  tenant_cluster: 'cluster',
  project: 'project',
  region: 'region',
};

/**
 * One metric over time, split by any key.
 * @param {{ query: URLSearchParams, status: any }} properties
 */
export function UsagePage({ query, status }) {
  const names = useNames();
  const range = rangeOf(query, Date.now());
  const { from, to } = range;
  const metric = query.get('metric') ?? DEFAULT_METRIC;
  const key = query.get('by') ?? 'tenant';
  const tenant = query.get('tenant') ?? '';
  const selection = { metric, tenant, from, to };
  const metrics = names.metrics.map(({ code, unit }) => [code, names.metricWithUnit(code, unit)]);
  const choose = (/** @type {string} */ name) => (/** @type {string} */ value) =>
    setQuery({ [name]: value });
  return html`
    <${PageHead} title="Usage"><${RangePicker} range=${range} /></${PageHead}>
    <div class="controls">
      <${Choice} label="Metric" value=${metric} options=${withChosen(metrics, metric, names.metric(metric))} onChoose=${choose('metric')} />
      <${Choice} label="Split by" value=${key} options=${withChosen(KEYS, key, keyName(key))} onChoose=${choose('by')} />
      <${TenantChoice} tenant=${tenant} />
    </div>
    ${status.data && html`<${UsageChart} selection=${selection} by=${key} range=${range} windowSeconds=${status.data.window_seconds} />`}
    <${Sums} selection=${selection} by=${key} range=${range} />
  `;
}

/**
 * @param {{ selection: { metric: string, tenant: string, from: string, to: string }, by: string,
 *   range: import('../time-range.js').TimeRange, windowSeconds: number }} properties
 */
export function UsageChart({ selection, by, range, windowSeconds }) {
  const names = useNames();
  const { metric, from, to } = selection;
  const usage = useApi(
    url('/api/v1/usage', { ...selection, group_by: `${by},${range.bucket}` }),
    REFRESH_MS,
  );
  const unmeasured = useHoles(selection);
  const rows = usage.data?.rows;
  const drawn = useMemo(() => {
    return rows === undefined ? undefined : toSeries(rows, by, range, windowSeconds, names.value);
  }, [rows, by, from, to, windowSeconds, names]);
  const total = usage.data?.totals[0];
  const unit = unitText(total?.unit ?? '');
  return html`
    <${Card} title="Over time">
      <${ErrorNotice} state=${usage} />
      ${drawn && html`<${StackedChart} title=${`${names.metric(metric)} by ${keyInWords(by)}`} unit=${`${unit} per ${bucketText(range.bucket)}`} drawn=${drawn} unmeasured=${unmeasured} total=${`${plain(total?.quantity ?? 0)} ${unit}`} />`}
    </${Card}>
  `;
}

/** The name of a key inside a sentence. @param {string} key */
function keyInWords(key) {
  const name = keyName(key);
  return /^[A-Z]{2}/.test(name) ? name : name.toLowerCase();
}

/**
 * @param {{ selection: { metric: string, tenant: string, from: string, to: string }, by: string,
 *   range: import('../time-range.js').TimeRange }} properties
 */
function Sums({ selection, by, range }) {
  const names = useNames();
  const { metric } = selection;
  const usage = useApi(url('/api/v1/usage', { ...selection, group_by: by }), REFRESH_MS);
  const costs = useCosts({ ...selection, group_by: by });
  const { data } = usage;
  const rows = (data?.rows ?? []).toSorted(
    (/** @type {any} */ a, /** @type {any} */ b) => b.quantity - a.quantity,
  );
  const [total] = data?.totals ?? [];
  const unit = total?.unit ?? '';
  const decimals = decimalsByUnit(rows).get(unit);
  const filter = FILTERS[by];
  return html`
    <${ErrorNotice} state=${usage} />
    ${costs.notice}
    ${data?.note && html`<p class="notice warn">${data.note}</p>`}
    ${
      data &&
      html`
      <${Card} title=${total === undefined ? 'Sums' : `Sums: ${quantity(total.quantity, decimals)} ${unitText(unit)} in ${counted(total.events, 'event')}`}>
        <${Table} caption=${names.metric(metric)} rows=${rows} empty=${noUsageText(data)}
          columns=${[
            text(
              keyName(by),
              (row) => {
                if (by === 'tenant')
                  return html`<${TenantLink} id=${row.tenant} query=${rangeQuery(range)} />`;
                if (by === 'tenant_cluster' && row[by] !== '')
                  return html`<${ClusterName} id=${row[by]} />`;
                return names.value(by, row[by]);
              },
              (row) => `${names.value(by, row[by])} ${row[by]}`,
            ),
            figure(
              names.metricWithUnit(metric, unit),
              (row) =>
                filter === undefined || row[by] === ''
                  ? quantity(row.quantity, decimals)
                  : html`<${SumLink} of=${{ ...selection, [filter]: row[by] }} label=${names.value(by, row[by])} text=${quantity(row.quantity, decimals)} />`,
              (row) => row.quantity,
            ),
            ...costs.column('Cost', (row) => row[by]),
          ]} />
        <${Downloads} files=${[
          ...costs.files,
          {
            text: 'Sums as CSV',
            address: url('/api/v1/usage', {
              ...selection,
              group_by: range.bucket === 'window' ? by : `${by},${range.bucket}`,
            }),
          },
          { text: 'Events as CSV', address: url('/api/v1/events', selection) },
          { text: 'Events as NDJSON', address: url('/api/v1/events', selection), csv: false },
        ]} />
      </${Card}>
    `
    }
  `;
}
