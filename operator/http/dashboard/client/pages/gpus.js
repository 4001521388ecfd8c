import { html, useMemo } from '../preact.js';
import { url, useApi } from '../api.js';
import { StackedChart } from '../chart.js';
import { Card, ErrorNotice, PageHead } from '../components.js';
import { Downloads } from '../downloads.js';
import { plain, time } from '../format.js';
import { GpuTable, GpuWords } from '../gpu-table.js';
import { useHoles } from '../holes.js';
import { TenantChoice, TenantLink, useNames } from '../names.js';
import { toSeries } from '../series.js';
import { text } from '../table.js';
import { bucketText, rangeOf, RangePicker, rangeQuery } from '../time-range.js';

/** @typedef {import('../time-range.js').TimeRange} TimeRange */

const REFRESH_MS = 60_000;
/** The API's name for GPUs of no tenant. */
const UNASSIGNED = 'unassigned';
const METRIC = 'tenant_gpu_hours';
const modelOf = (/** @type {any} */ row) => row.gpu_type;
const MODEL = text('GPU', modelOf, modelOf);

/**
 * GPU-hours of tenants, and how many of them are in use.
 * @param {{ query: URLSearchParams, status: any }} properties
 */
export function GpusPage({ query, status }) {
  const names = useNames();
  const range = rangeOf(query, Date.now());
  const { from, to } = range;
  const tenant = query.get('tenant') ?? '';
  const gpus = useApi(url('/api/v1/gpus', { from, to, tenant }), REFRESH_MS);
  const { data } = gpus;
  const isLate = data !== undefined && Date.parse(data.measured_since) > Date.parse(from);
  return html`
    <${PageHead} title="GPUs"><${RangePicker} range=${range} /></${PageHead}>
    <div class="controls">
      <${TenantChoice} tenant=${tenant} />
    </div>
    <${ErrorNotice} state=${gpus} />
    ${data?.note && html`<p class="notice warn">${data.note}</p>`}
    ${isLate && html`<p class="notice">These figures begin on ${time(data.measured_since)}: earlier ones are unknown.</p>`}
    ${status.data && html`<${OverTime} selection=${{ from, to, tenant }} range=${range} windowSeconds=${status.data.window_seconds} />`}
    ${
      data &&
      html`
      <${Card} title="By model">
        <${GpuTable} caption=${`GPU-hours from ${time(from)} to ${time(to)}`} rows=${data.totals} names=${[MODEL]} empty="No GPUs in this time." />
        ${tenant === '' && data.totals.length > 0 && html`<p class="muted">Installed GPU-hours are those delivered to tenants plus the unassigned ones.</p>`}
      </${Card}>
      <${Card} title="By tenant and model">
        <${GpuTable} caption="GPU-hours of each tenant, and unassigned" rows=${nobodyLast(data.rows)} empty="No GPUs in this time."
          names=${[
            text(
              'Tenant',
              (row) =>
                row.tenant === UNASSIGNED
                  ? 'Unassigned'
                  : html`<${TenantLink} id=${row.tenant} query=${rangeQuery(range)} />`,
              (row) => `${names.tenant(row.tenant)} ${row.tenant}`,
            ),
            MODEL,
          ]} />
        <${GpuWords} />
        <${Downloads} files=${[
          { text: 'GPUs as CSV', address: url('/api/v1/gpus', { from, to, tenant }) },
          {
            text: `By ${bucketText(range.bucket)} as CSV`,
            address: url('/api/v1/gpus', {
              from,
              to,
              tenant,
              group_by: `${range.bucket},tenant,gpu_type`,
            }),
          },
        ]} />
      </${Card}>
    `
    }
  `;
}

/** @param {any[]} rows */
function nobodyLast(rows) {
  return [
    ...rows.filter(({ tenant }) => tenant !== UNASSIGNED),
    ...rows.filter(({ tenant }) => tenant === UNASSIGNED),
  ];
}

/** The states of delivered GPUs. */
const STATES = /** @type {const} */ (['In use', 'Idle', 'Down']);

/** @param {any} row */
function statesOf(row) {
  return { 'In use': row.in_use, Idle: row.idle, Down: row.delivered - row.healthy };
}

/**
 * @param {{ selection: { from: string, to: string, tenant: string }, range: TimeRange,
 *   windowSeconds: number }} properties
 */
function OverTime({ selection, range, windowSeconds }) {
  const { bucket } = range;
  const gpus = useApi(url('/api/v1/gpus', { ...selection, group_by: bucket }), REFRESH_MS);
  const unmeasured = useHoles({ ...selection, metric: METRIC });
  const rows = gpus.data?.rows;
  const drawn = useMemo(() => {
    if (rows === undefined) return undefined;
    const amounts = rows.flatMap((/** @type {any} */ row) => {
      const states = statesOf(row);
      return STATES.map((state) => ({ [bucket]: row[bucket], state, quantity: states[state] }));
    });
    const nothing = amounts.every((/** @type {{ quantity: number }} */ one) => one.quantity === 0);
    return toSeries(nothing ? [] : amounts, 'state', range, windowSeconds, (_, state) => state);
  }, [rows, range.from, range.to, windowSeconds]);
  const delivered = (gpus.data?.totals ?? []).reduce(
    (/** @type {number} */ sum, /** @type {any} */ total) => sum + total.delivered,
    0,
  );
  return html`
    <${Card} title="Over time">
      <${ErrorNotice} state=${gpus} />
      ${drawn && html`<${StackedChart} title="Delivered GPU-hours by state" unit=${`GPU-hours per ${bucketText(bucket)}`} drawn=${drawn} unmeasured=${unmeasured} total=${`${plain(delivered)} GPU-hours`} />`}
    </${Card}>
  `;
}
