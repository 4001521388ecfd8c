import { html, useContext, useMemo, useState } from '../preact.js';
import { read, useApi, url } from '../api.js';
import { CopyButton } from '../buttons.js';
import { StackedChart } from '../chart.js';
import { Bars, Card, ErrorNotice, Notice, PageHead, Tile } from '../components.js';
import {
  ago,
  bytes,
  count,
  counted,
  duration,
  noUsageText,
  plain,
  quantity,
  time,
} from '../format.js';
import { GapList } from '../gap-list.js';
import { HeldNotice } from '../held-usage.js';
import { unknownBefore, useHoles } from '../holes.js';
import { HubContext } from '../hub.js';
import { link, shownCluster } from '../location.js';
import { toSeries } from '../series.js';
import { ClusterName, useNames } from '../names.js';
import { SumLink } from '../sums.js';
import { Table, text } from '../table.js';
import { bucketText, RangePicker, rangeOf } from '../time-range.js';
import { TenantUsage } from '../tenant-usage.js';
import { Tokens } from '../tokens.js';
import { destinationColumns, healthOf } from './destinations.js';

/** @typedef {import('../time-range.js').TimeRange} TimeRange */

const USAGE_MS = 60_000;
const GPU_HOURS = 'tenant_gpu_hours';
const TOP = 10;
const VERIFY_MS = 600_000;
/** Gaps on this page; the page of gaps has all. */
const GAPS_SHOWN = 3;

/** Windows are late when two more should have closed since the last one. */
const LATE_WINDOWS = 3;

/** Everything at a glance. @param {{ status: any, query: URLSearchParams }} properties */
export function OverviewPage({ status, query }) {
  const isFleet = useContext(HubContext) === true && shownCluster() === undefined;
  const now = Date.now();
  const range = rangeOf(query, now, '24h');
  const { from, to } = range;
  const gpus = useApi(
    url('/api/v1/usage', { group_by: 'sku', metric: GPU_HOURS, from, to }),
    USAGE_MS,
  );
  const { data } = status;
  return html`
    <${PageHead} title="Overview"><${RangePicker} range=${range} /></${PageHead}>
    <${ErrorNotice} state=${status} />
    ${data && html`<${Warnings} status=${data} />`}
    <${HeldNotice} />
    ${data && html`<${Tiles} status=${data} gpus=${gpus.data} now=${now} />`}
    <div class="grid">
      <${Card} title="GPU-hours over time">
        ${data && html`<${GpuChart} range=${range} windowSeconds=${data.window_seconds} />`}
      </${Card}>
      <${Card} title="GPU-hours by SKU"><${GpuBars} gpus=${gpus} range=${range} /></${Card}>
    </div>
    <${Card} title="Usage by tenant"><${TenantUsage} range=${range} /></${Card}>
    <${Tokens} range=${range} />
    ${
      data &&
      html`
      <${Card} title="Destinations">
        <${Table} caption="Where usage is delivered to" columns=${destinationColumns(now)} rows=${data.destinations}
          empty="No destination is configured: usage is metered and kept in the ledger. Apply a BillingDestination to deliver it." />
      </${Card}>
      <${OpenGaps} />
      <${FailedTenantApis} failed=${data.failed_tenant_apis} />
      ${!isFleet && html`<${LedgerCard} ledger=${data.ledger} now=${now} />`}
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
  const { total, gpu_seconds: gpuSeconds, items } = status.unattributed;
  if (total > 0) {
    const ofGpus = gpuSeconds > 0 ? `, with ${quantity(gpuSeconds)} GPU-seconds,` : '';
    lines.unshift(
      `${counted(total, 'object')} of the last window${ofGpus} belong to no known tenant and are billed to nobody: ${items.join(', ')}`,
    );
  }
  const { problems } = status.ledger;
  return html`
    ${problems.length > 0 && html`<${Notice} tone="bad" title="The ledger"><ul>${problems.map((/** @type {string} */ line) => html`<li>${line}</li>`)}</ul></${Notice}>`}
    ${lines.length > 0 && html`<${Notice} title="Note"><ul>${lines.map((line) => html`<li>${line}</li>`)}</ul></${Notice}>`}
  `;
}

/** @param {{ status: any, gpus: any, now: number }} properties */
function Tiles({ status, gpus, now }) {
  const { last_window_end: last, window_seconds: seconds } = status;
  const late =
    last === undefined || now - Date.parse(last) > LATE_WINDOWS * seconds * 1000 + 15_000;
  const tones = status.destinations.map((/** @type {any} */ one) => healthOf(one).tone);
  const all = tones.length;
  const healthy = tones.filter((/** @type {string} */ tone) => tone === 'good').length;
  const letters = status.destinations.reduce(
    (/** @type {number} */ sum, /** @type {any} */ one) => sum + one.dead_letters,
    0,
  );
  const sent = status.destinations.some((/** @type {any} */ one) => one.delivered_events > 0);
  const failed = status.failed_tenant_apis.length;
  const uncovered = status.without_kubeconfig.total;
  const open = status.gaps.filter((/** @type {any} */ gap) => last === undefined || gap.to >= last);
  return html`
    <div class="tiles">
      <${Tile} label="Tenants" value=${count(status.tenants)} note=${counted(status.tenant_clusters, 'tenant cluster')} />
      <${Tile} label="GPU-hours" value=${gpuHoursText(gpus)} note="in the chosen time" />
      <${Tile} label="Last window" value=${ago(last, now)} note=${last === undefined ? 'none has closed yet' : late ? 'windows are not closing: see the log' : `every ${duration(seconds)}`} tone=${late ? 'warn' : 'good'} />
      <${Tile} label="Healthy destinations" value=${all === 0 ? 'none' : `${healthy} of ${all}`} note=${all === 0 && 'usage is kept, not delivered'} tone=${all === 0 ? 'plain' : healthy === all ? 'good' : 'warn'} />
      <${Tile} label="Dead letters" value=${count(letters)} note=${letters > 0 ? 'refused, so not billed' : sent ? 'nothing was refused' : 'nothing was sent yet'} tone=${letters > 0 ? 'bad' : sent ? 'good' : 'plain'} />
      <${Tile} label="Open gaps" value=${count(open.length)} note=${html`<a href=${link(['gaps'])}>What was not measured</a>`} tone=${open.length === 0 ? 'good' : 'warn'} />
      <${Tile} label="Failed tenant APIs" value=${count(failed)} note=${uncovered === 0 ? undefined : `${counted(uncovered, 'tenant cluster')} without kubeconfig and without known private nodes`} tone=${failed === 0 ? 'good' : 'warn'} />
    </div>
  `;
}

/** @param {any} gpus */
function gpuHoursText(gpus) {
  if (gpus === undefined) return '…';
  const [total] = gpus.totals;
  const [before] = unknownBefore(gpus);
  if (total === undefined && before?.to === gpus.to) return 'unknown';
  return quantity(total?.quantity ?? 0);
}

/** @param {{ range: TimeRange, windowSeconds: number }} properties */
function GpuChart({ range, windowSeconds }) {
  const names = useNames();
  const { from, to, bucket } = range;
  const gpus = useApi(
    url('/api/v1/usage', { group_by: `sku,${bucket}`, metric: GPU_HOURS, from, to }),
    USAGE_MS,
  );
  const unmeasured = useHoles({ from, to, metric: GPU_HOURS });
  const rows = gpus.data?.rows;
  const drawn = useMemo(
    () =>
      rows === undefined ? undefined : toSeries(rows, 'sku', range, windowSeconds, names.value),
    [rows, from, to, windowSeconds, names],
  );
  const total = `${plain(gpus.data?.totals[0]?.quantity ?? 0)} GPU-hours`;
  return html`
    <${ErrorNotice} state=${gpus} />
    ${drawn && html`<${StackedChart} title="GPU-hours by SKU" unit=${`GPU-hours per ${bucketText(bucket)}`} drawn=${drawn} unmeasured=${unmeasured} total=${total} />`}
  `;
}

/** @param {{ gpus: ReturnType<typeof useApi>, range: TimeRange }} properties */
function GpuBars({ gpus, range: { from, to } }) {
  const rows = (gpus.data?.rows ?? []).toSorted(
    (/** @type {any} */ a, /** @type {any} */ b) => b.quantity - a.quantity,
  );
  return html`
    <${ErrorNotice} state=${gpus} />
    ${
      gpus.data &&
      html`<${Bars} empty=${noUsageText(gpus.data)}
        rows=${rows.slice(0, TOP).map((/** @type {any} */ row) => ({
          name:
            row.sku === ''
              ? 'no SKU'
              : html`<${SumLink} of=${{ metric: GPU_HOURS, sku: row.sku, from, to }} label=${`GPU hours on ${row.sku}`} text=${row.sku} />`,
          value: row.quantity,
          text: quantity(row.quantity),
        }))} />`
    }
  `;
}

/** The open gaps; the page of gaps has also those that have ended. */
function OpenGaps() {
  const gaps = useApi('/api/v1/gaps', USAGE_MS);
  const open = gaps.data?.open ?? [];
  return html`
    <${Card} title="Not measured now">
      <${ErrorNotice} state=${gaps} />
      ${gaps.data && html`<${GapList} groups=${open.slice(0, GAPS_SHOWN)} empty="Everything is measured." />`}
      <p><a href=${link(['gaps'])}>All gaps, also those that have ended</a></p>
    </${Card}>
  `;
}

/** @param {{ failed: any[] }} properties */
function FailedTenantApis({ failed }) {
  if (failed.length === 0) return null;
  return html`
    <${Card} title="Tenant APIs that cannot be read">
      <${Table} caption="Private nodes of these tenant clusters are not metered until their API can be read" rows=${failed} empty="None."
        columns=${[
          text('Tenant cluster', (one) => html`<${ClusterName} id=${one.tenant_cluster} />`),
          text('Since', (one) => time(one.since)),
          text('Reason', (one) => one.reason),
        ]} />
    </${Card}>
  `;
}

/**
 * The state of the ledger. The check reads every stored byte, so it runs on demand.
 * @param {{ ledger: any, now: number }} properties
 */
function LedgerCard({ ledger, now }) {
  const [result, setResult] = useState('');
  const verify = async () => {
    setResult('Reading every stored byte…');
    try {
      const report = await read('/api/v1/ledger/verify', { patience: VERIFY_MS });
      setResult(
        `Intact: ${counted(report.records, 'event')} in ${counted(report.segments, 'segment')}.`,
      );
    } catch (error) {
      setResult(error instanceof Error ? error.message : String(error));
    }
  };
  return html`
    <${Card} title="Ledger">
      <dl class="facts">
        <dt>Events</dt><dd>${count(ledger.committed)}${ledger.oldest_at && `, the oldest recorded ${ago(ledger.oldest_at, now)}`}</dd>
        <dt>Size</dt><dd>${bytes(ledger.bytes)} in ${counted(ledger.segments, 'segment')}; the volume is ${Math.round(ledger.disk.used_ratio * 100)} % full (${ledger.disk.level})</dd>
        <dt>Conflicts</dt><dd>${counted(ledger.conflicts, 'event')} came again with another quantity; the first one counts</dd>
        <dt>Chain</dt><dd>Hash of all events <${CopyButton} text=${ledger.chain} what="hash" /></dd>
      </dl>
      <p><button onClick=${verify}>Check the ledger</button> <span role="status">${result}</span></p>
      <p><a href=${link(['windows'])}>Window reports</a></p>
    </${Card}>
  `;
}
