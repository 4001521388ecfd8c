import { html, useMemo, useState } from '../preact.js';
import { read, useApi, url } from '../api.js';
import { StackedChart } from '../chart.js';
import { Bars, Card, Notice, PageHead, Table, Tile, ErrorNotice } from '../components.js';
import { ago, bytes, count, quantity, time } from '../format.js';
import { link } from '../location.js';
import { toSeries, totalsBy } from '../series.js';
import { RangePicker, rangeOf } from '../time-range.js';
import { destinationColumns, healthOf } from './destinations.js';
import { TenantUsage } from './tenants.js';

const USAGE_MS = 60_000;
const GPU_HOURS = 'tenant_gpu_hours';
const TOP = 10;

/** Windows are late when two more should have closed since. */
const LATE_WINDOWS = 3;

/** Everything at a glance. @param {{ status: any, query: URLSearchParams }} properties */
export function OverviewPage({ status, query }) {
  const now = Date.now();
  const range = rangeOf(query, now);
  const { from, to } = range;
  const gpus = useApi(
    url('/api/v1/usage', { group_by: `sku,${range.bucket}`, metric: GPU_HOURS, from, to }),
    USAGE_MS,
  );
  const { data } = status;
  return html`
    <${PageHead} title="Overview"><${RangePicker} range=${range} /></${PageHead}>
    <${ErrorNotice} state=${status} />
    ${data && html`<${Warnings} status=${data} />`}
    ${data && html`<${Tiles} status=${data} gpus=${gpus.data} now=${now} />`}
    <div class="grid">
      <${Card} title="GPU-hours over time"><${GpuChart} gpus=${gpus} range=${range} /></${Card}>
      <${Card} title="GPU-hours by SKU">
        <${ErrorNotice} state=${gpus} />
        ${
          gpus.data &&
          html`<${Bars} empty="No GPU was used in this time."
          rows=${totalsBy(gpus.data.rows, 'sku')
            .slice(0, TOP)
            .map(([name, value]) => ({ name: name || 'no SKU', value, text: quantity(value) }))} />`
        }
      </${Card}>
    </div>
    <${Card} title="Usage by tenant"><${TenantUsage} range=${range} /></${Card}>
    ${
      data &&
      html`
      <${Card} title="Destinations">
        <${Table} caption="Where usage is delivered to" columns=${destinationColumns(now)} rows=${data.destinations}
          empty="No destination is configured: usage is metered and kept in the ledger. Apply a BillingDestination to deliver it." />
      </${Card}>
      <${Gaps} gaps=${data.gaps} />
      <${FailedTenantApis} failed=${data.failed_tenant_apis} />
      <${LedgerCard} ledger=${data.ledger} now=${now} />
    `
    }
  `;
}

/** @param {{ status: any }} properties */
function Warnings({ status }) {
  const lines = [...status.warnings, ...status.discovery_problems];
  if (status.metrics_api_failure) {
    lines.unshift(
      `The metrics API cannot be read since ${time(status.metrics_api_failure.since)}, so CPU and memory usage are gaps: ${status.metrics_api_failure.reason}`,
    );
  }
  for (const problem of status.ledger.problems) lines.unshift(`Ledger: ${problem}`);
  if (lines.length === 0) return null;
  return html`<${Notice} title="To know"><ul>${lines.map((line) => html`<li>${line}</li>`)}</ul></${Notice}>`;
}

/** @param {{ status: any, gpus: any, now: number }} properties */
function Tiles({ status, gpus, now }) {
  const { last_window_end: last, window_seconds: seconds } = status;
  const late =
    last === undefined || now - Date.parse(last) > LATE_WINDOWS * seconds * 1000 + 15_000;
  const well = status.destinations.filter(
    (/** @type {any} */ one) => healthOf(one).tone === 'good',
  ).length;
  const all = status.destinations.length;
  const failed = status.failed_tenant_apis.length;
  return html`
    <div class="tiles">
      <${Tile} label="Tenants" value=${count(status.tenants)} note=${`${count(status.tenant_clusters)} tenant clusters`} />
      <${Tile} label="GPU-hours" value=${gpus === undefined ? '…' : quantity(totalOf(gpus.rows))} note="in the chosen time" />
      <${Tile} label="Last window" value=${ago(last, now)} note=${late ? 'windows are not closing: see the log' : `every ${status.window}`} tone=${late ? 'bad' : 'good'} />
      <${Tile} label="Destinations well" value=${`${well} of ${all}`} tone=${all === 0 ? 'plain' : well === all ? 'good' : 'bad'} />
      <${Tile} label="Open gaps" value=${count(status.gaps.length)} note="stretches not measured yet" tone=${status.gaps.length === 0 ? 'good' : 'warn'} />
      <${Tile} label="Failed tenant APIs" value=${count(failed)} tone=${failed === 0 ? 'good' : 'warn'} />
    </div>
  `;
}

/** @param {{ gpus: any, range: import('../time-range.js').TimeRange }} properties */
function GpuChart({ gpus, range }) {
  const rows = gpus.data?.rows;
  const drawn = useMemo(
    () => (rows === undefined ? undefined : toSeries(rows, 'sku', range)),
    [rows, range.from, range.to],
  );
  return html`
    <${ErrorNotice} state=${gpus} />
    ${drawn && html`<${StackedChart} title="GPU-hours by SKU" unit=${`GPU-hours per ${range.bucket}`} ...${drawn} />`}
  `;
}

/** @param {{ gaps: any[] }} properties */
function Gaps({ gaps }) {
  return html`
    <${Card} title="Gaps">
      <${Table} caption="What could not be measured. Nothing is billed for it unless it can be filled." rows=${gaps}
        empty="None: everything was measured."
        columns=${[
          { name: 'Source', cell: (/** @type {any} */ gap) => gap.source },
          { name: 'Scope', cell: (/** @type {any} */ gap) => gap.scope },
          { name: 'From', cell: (/** @type {any} */ gap) => time(gap.from) },
          { name: 'To', cell: (/** @type {any} */ gap) => time(gap.to) },
          { name: 'Reason', cell: (/** @type {any} */ gap) => gap.reason },
        ]} />
    </${Card}>
  `;
}

/** @param {{ failed: any[] }} properties */
function FailedTenantApis({ failed }) {
  if (failed.length === 0) return null;
  return html`
    <${Card} title="Tenant APIs that cannot be read">
      <${Table} caption="Nodes that these tenant clusters have of their own are not metered until their API can be read. One without such nodes can say so: annotation node-mode: shared" rows=${failed} empty="None."
        columns=${[
          { name: 'Tenant cluster', cell: (/** @type {any} */ one) => one.tenant_cluster },
          { name: 'Since', cell: (/** @type {any} */ one) => time(one.since) },
          { name: 'Reason', cell: (/** @type {any} */ one) => one.reason },
        ]} />
    </${Card}>
  `;
}

/** The check reads every stored byte, so it runs when somebody asks for it. @param {{ ledger: any, now: number }} properties */
function LedgerCard({ ledger, now }) {
  const [result, setResult] = useState('');
  const verify = async () => {
    setResult('Reading every stored byte…');
    try {
      const report = await read('/api/v1/ledger/verify');
      setResult(`Intact: ${count(report.records)} events in ${count(report.segments)} segments.`);
    } catch (error) {
      setResult(error instanceof Error ? error.message : String(error));
    }
  };
  return html`
    <${Card} title="Ledger">
      <dl class="facts">
        <dt>Events</dt><dd>${count(ledger.committed)}, the oldest recorded ${ago(ledger.oldest_at, now)}</dd>
        <dt>Size</dt><dd>${bytes(ledger.bytes)} in ${ledger.segments === 1 ? 'one segment' : `${count(ledger.segments)} segments`}; the volume is ${Math.round(ledger.disk.used_ratio * 100)} % full (${ledger.disk.level})</dd>
        <dt>Conflicts</dt><dd>${count(ledger.conflicts)} events came again with another quantity; the first one stayed</dd>
        <dt>Chain</dt><dd><code>${ledger.chain}</code></dd>
      </dl>
      <p><button onClick=${verify}>Check the ledger</button> <span role="status">${result}</span></p>
      <p><a href=${link(['windows'])}>Window reports</a></p>
    </${Card}>
  `;
}

/** @param {any[]} rows */
function totalOf(rows) {
  return rows.reduce((sum, row) => sum + row.quantity, 0);
}
