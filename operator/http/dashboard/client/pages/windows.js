import { html } from '../preact.js';
import { useApi, url } from '../api.js';
import { Badge, Card, ErrorNotice, Notice, PageHead } from '../components.js';
import { count, counted, plain, quantity, time } from '../format.js';
import { GapList } from '../gap-list.js';
import { scopeText } from '../gap-words.js';
import { link } from '../location.js';
import { ClusterName, useNames } from '../names.js';
import { figure, Table, text } from '../table.js';

const REFRESH_MS = 30_000;
const SHOWN = 100;
const PARTS = ['billed', 'idle', 'downtime', 'system'];

/** The last closed windows. */
export function WindowsPage() {
  const windows = useApi(url('/api/v1/windows', { limit: SHOWN }), REFRESH_MS);
  return html`
    <${PageHead} title="Windows" />
    <p class="muted">Usage is measured in windows. Each is closed once, and its events are written together.</p>
    <${ErrorNotice} state=${windows} />
    ${
      windows.data &&
      html`
      <${Card}>
        <${Table} caption=${`The last ${counted(windows.data.windows.length, 'report')}, newest first`} rows=${windows.data.windows}
          empty="No window has closed yet. The first one closes a few seconds after its end."
          columns=${[
            text(
              'Window end',
              (one) =>
                html`<a href=${link(['windows', one.window_end])}>${time(one.window_end)}</a>`,
            ),
            figure('Events', (one) => count(one.events)),
            figure('Tenants', (one) => count(one.tenants)),
            figure(
              'Closed after',
              (one) =>
                `${((Date.parse(one.closed_at) - Date.parse(one.window_end)) / 1000).toFixed(1)} s`,
            ),
            text('State', stateOf),
          ]} />
      </${Card}>
    `
    }
  `;
}

/** @param {any} report */
function stateOf(report) {
  const unaccounted = unaccountedOf(report);
  const marks = [
    ...(report.gaps.length > 0
      ? [html`<${Badge} tone="warn">${counted(report.gaps.length, 'gap')}</${Badge}>`]
      : []),
    ...(report.backfilled ? [html`<${Badge} tone="plain">backfilled</${Badge}>`] : []),
    ...(report.refused.length > 0
      ? [html`<${Badge} tone="bad">${report.refused.length} not billed</${Badge}>`]
      : []),
    ...(unaccounted === 0
      ? []
      : [html`<${Badge} tone="bad">${plain(unaccounted)} GPU-seconds unaccounted</${Badge}>`]),
  ];
  return marks.length === 0 ? html`<${Badge} tone="good">complete</${Badge}>` : marks;
}

/** @param {any} report */
function unaccountedOf(report) {
  const rows = report.gpus?.models ?? [];
  return rows.reduce(
    (/** @type {number} */ sum, /** @type {any} */ row) => sum + Math.abs(row.unaccounted),
    0,
  );
}

/**
 * One window: its figures, its gaps, and the balance of its GPU time.
 * @param {{ end: string }} properties
 */
export function WindowPage({ end }) {
  const window = useApi(`/api/v1/windows/${encodeURIComponent(end)}`);
  const { data } = window;
  return html`
    <${PageHead} title=${`Window until ${readableEnd(end)}`}><a href=${link(['windows'])}>All windows</a></${PageHead}>
    <${ErrorNotice} state=${window} />
    ${data && html`<${Report} report=${data} />`}
  `;
}

/** @param {string} end */
function readableEnd(end) {
  return Number.isNaN(Date.parse(end)) ? end : time(end);
}

/** @param {{ report: any }} properties */
function Report({ report }) {
  const names = useNames();
  return html`
    ${
      report.refused.length > 0 &&
      html`<${Notice} tone="bad" title="Not billed"><ul>${report.refused.map((/** @type {string} */ line) => html`<li>${line}</li>`)}</ul></${Notice}>`
    }
    <div class="grid">
      <${Card} title="The window">
        <dl class="facts">
          <dt>From</dt><dd>${time(report.window_start)}</dd>
          <dt>To</dt><dd>${time(report.window_end)}</dd>
          <dt>Closed</dt><dd>${time(report.closed_at)}, in ${count(report.duration_ms)} ms</dd>
          <dt>Events</dt><dd>${counted(report.events, 'event')} for ${counted(report.tenants, 'tenant')} in ${counted(report.tenant_clusters, 'tenant cluster')}</dd>
          <dt>Measured</dt><dd>${scopesText(report.scopes, names)}${report.backfilled ? ', backfilled' : ''}</dd>
          <dt>Duplicates</dt><dd>${count(report.duplicates)}; ${counted(report.conflicts, 'conflict')}</dd>
          <dt>Open reversal</dt><dd>${plain(report.open_reversal_seconds)} s billed too much before, to be reversed</dd>
          <dt>Unattributed</dt><dd>${counted(report.unattributed.total, 'object')}${report.unattributed.items.length > 0 ? `: ${report.unattributed.items.join(', ')}` : ''}</dd>
          ${report.machines && html`<dt>Machines</dt><dd>${counted(report.machines.total, 'object')} of nodes, billed as those: ${report.machines.items.join(', ')}</dd>`}
        </dl>
      </${Card}>
      <${Card} title="Gaps">
        <${WindowGaps} report=${report} />
      </${Card}>
    </div>
    <${Card} title="Where GPU time went">
      <p class="muted">Installed = billed + idle + downtime + system, in GPU-seconds. What is unaccounted must be 0.</p>
      ${
        report.gpus === undefined
          ? html`<p class="empty">GPUs were not part of this report.</p>`
          : html`
            <${Balance} caption="By GPU model" rows=${report.gpus.models} />
            ${report.gpus.private_nodes && html`<${Balance} caption="Private nodes, by GPU model" rows=${report.gpus.private_nodes} />`}
            ${report.gpus.tenants && html`<${TenantGpus} rows=${report.gpus.tenants} />`}
            ${report.gpus.nodes && html`<${Balance} caption="By node" rows=${report.gpus.nodes} />`}
          `
      }
    </${Card}>
    ${
      report.contested_nodes?.length > 0 &&
      html`
      <${Card} title="Contested nodes">
        <${Table} caption="Claimed by several tenant clusters, so dedicated to none" rows=${report.contested_nodes} empty="None."
          columns=${[
            text('Node', (one) => one.node),
            text('Tenant clusters', (one) =>
              one.tenant_clusters.map(
                (/** @type {string} */ id) => html`<div><${ClusterName} id=${id} /></div>`,
              ),
            ),
          ]} />
      </${Card}>
    `
    }
  `;
}

/** @param {string[]} scopes @param {import('../names.js').Names} names */
function scopesText(scopes, names) {
  return scopes.map((scope) => scopeText(scope, names)).join(', ');
}

/** The gaps of the window, by cause. @param {{ report: any }} properties */
function WindowGaps({ report }) {
  const { gaps, window_start: from, window_end: to } = report;
  const grouped = useApi(gaps.length === 0 ? undefined : url('/api/v1/gaps', { from, to }));
  if (gaps.length === 0) return html`<p class="empty">None: everything was measured.</p>`;
  const { data } = grouped;
  return html`
    <${ErrorNotice} state=${grouped} />
    ${data && html`<${GapList} groups=${[...data.open, ...data.ended]} empty="They have been filled since." />`}
  `;
}

/** @param {{ caption: string, rows: any[] }} properties */
function Balance({ caption, rows }) {
  const amount = (/** @type {string} */ name) =>
    figure(name[0]?.toUpperCase() + name.slice(1), (row) => quantity(row[name]));
  return html`
    <${Table} caption=${caption} rows=${rows} empty="No GPUs."
      columns=${[
        text(rows[0]?.node === undefined ? 'GPU' : 'Node', (row) =>
          row.node === undefined ? row.gpu_type : `${row.node} (${row.gpu_type})`,
        ),
        text('Shares', shares),
        ...['installed', ...PARTS, 'overlap', 'carried', 'unaccounted'].map(amount),
      ]} />
  `;
}

/** @param {{ rows: any[] }} properties */
function TenantGpus({ rows }) {
  const names = useNames();
  const figures = ['delivered', 'healthy', 'reserved', 'in_use'];
  return html`
    <${Table} caption="By tenant and GPU model" rows=${rows} empty="No GPUs."
      columns=${[
        text('Tenant', (row) => `${names.tenant(row.tenant)} (${row.gpu_type})`),
        ...figures.map((field) =>
          figure(`${field[0]?.toUpperCase()}${field.slice(1).replace('_', ' ')}`, (row) =>
            quantity(row[field]),
          ),
        ),
      ]} />
  `;
}

/** @param {any} row */
function shares(row) {
  const width = (/** @type {string} */ part) => ({
    width: `${row.installed > 0 ? (100 * row[part]) / row.installed : 0}%`,
  });
  return html`<div class="stack" aria-hidden="true">${PARTS.map((part) => html`<span class=${part} style=${width(part)}></span>`)}</div>`;
}
