import { html } from '../preact.js';
import { useApi } from '../api.js';
import { Badge, Card, ErrorNotice, PageHead, Tile } from '../components.js';
import { ago, count, counted } from '../format.js';
import { link } from '../location.js';
import { figure, Table, text } from '../table.js';

const REFRESH_MS = 10_000;
/** A meter reports every few seconds; after this time without a report it counts as silent. */
const SILENT_S = 30;

/** The clusters of a fleet, with the report of each meter and the lag of the hub. */
export function FleetPage() {
  const fleet = useApi('/api/v1/fleet', REFRESH_MS);
  const streams = fleet.data?.streams ?? [];
  const now = Date.now();
  return html`
    <${PageHead} title="Fleet" />
    <p class="muted">Each cluster has a meter that writes a stream of its own into the database. This hub reads all of them, and feeds the destinations.</p>
    <${ErrorNotice} state=${fleet} />
    ${
      fleet.data &&
      html`
      <${Tiles} streams=${streams} />
      <${Card}>
        <${Table} caption=${counted(streams.length, 'cluster')} rows=${streams} columns=${columns(now)}
          empty="No meter has registered a stream yet. Start one with ROLE=meter and the same LEDGER_URL." />
      </${Card}>
    `
    }
  `;
}

/** @param {{ streams: any[] }} properties */
function Tiles({ streams }) {
  const sum = (/** @type {(one: any) => number} */ value) =>
    streams.reduce((total, one) => total + value(one), 0);
  const healthy = streams.filter((one) => stateOf(one).tone === 'good').length;
  const gaps = sum((one) => one.meter?.gaps ?? 0);
  const failed = sum((one) => one.meter?.failed_tenant_apis ?? 0);
  const lag = Math.max(0, ...streams.map((one) => one.lag_records));
  const versions = new Set(streams.flatMap((one) => one.meter?.version ?? []));
  return html`
    <div class="tiles">
      <${Tile} label="Healthy clusters" value=${streams.length === 0 ? 'none' : `${healthy} of ${streams.length}`} tone=${streams.length === 0 ? 'plain' : healthy === streams.length ? 'good' : 'warn'} />
      <${Tile} label="Events" value=${count(sum((one) => one.events))} note="in all streams" />
      <${Tile} label="Furthest behind" value=${counted(lag, 'event')} note="at one destination" />
      <${Tile} label="Open gaps" value=${count(gaps)} tone=${gaps === 0 ? 'good' : 'warn'} />
      <${Tile} label="Failed tenant APIs" value=${count(failed)} tone=${failed === 0 ? 'good' : 'warn'} />
      <${Tile} label="Versions" value=${versions.size === 0 ? 'none' : [...versions].join(', ')} tone=${versions.size > 1 ? 'warn' : 'plain'} />
    </div>
  `;
}

/** @param {number} now */
function columns(now) {
  const number = (
    /** @type {string} */ name,
    /** @type {(one: any) => number | undefined} */ value,
  ) => figure(name, (one) => countText(value(one)), value);
  return [
    text(
      'Cluster',
      (one) =>
        html`${one.meter ? html`<a href=${link([], {}, one.cluster)}>${one.cluster}</a>` : one.cluster} <span class="muted">${one.region}</span>`,
    ),
    text('State', (one) => html`<${State} stream=${one} />`),
    text('Version', (one) => one.meter?.version ?? ''),
    text('Last window', (one) =>
      one.last_window_end === undefined ? 'none yet' : ago(one.last_window_end, now),
    ),
    number('Tenants', (one) => one.meter?.tenants),
    number('Tenant clusters', (one) => one.meter?.tenant_clusters),
    number('Events', (one) => one.events),
    number('Behind', (one) => one.lag_records),
    number('Open gaps', (one) => one.meter?.gaps),
    number('Failed APIs', (one) => one.meter?.failed_tenant_apis),
    number('Unattributed', (one) => one.meter?.unattributed),
  ];
}

/** @param {number | undefined} found */
function countText(found) {
  return found === undefined ? 'unknown' : count(found);
}

/** @param {{ stream: any }} properties */
function State({ stream }) {
  const { tone, word, why } = stateOf(stream);
  return html`<${Badge} tone=${tone}>${word}</${Badge}>${why !== '' && html`<div class="muted">${why}</div>`}`;
}

/**
 * @param {any} stream
 * @returns {{ tone: import('../components.js').Tone, word: string, why: string }}
 */
function stateOf({ problem = '', meter }) {
  if (meter === undefined) return { tone: 'warn', word: 'unknown', why: problem };
  if (meter.reported_seconds_ago > SILENT_S) return { tone: 'bad', word: 'silent', why: problem };
  if (!meter.ready) return { tone: 'warn', word: 'not ready', why: meter.waits_for.join('; ') };
  if (problem !== '') return { tone: 'warn', word: 'not fed', why: problem };
  return { tone: 'good', word: 'metering', why: '' };
}
