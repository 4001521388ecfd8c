import { html } from '../preact.js';
import { Agreement } from '../agreement.js';
import { useApi, url } from '../api.js';
import { Card, ErrorNotice, PageHead, Trail } from '../components.js';
import {
  clock,
  counted,
  dayText,
  decimalsByUnit,
  monthText,
  noUsageText,
  quantity,
  unitText,
} from '../format.js';
import { link } from '../location.js';
import { ClusterName, TenantLink, useNames } from '../names.js';
import { sumPlace } from '../sums.js';
import { figure, Table, text } from '../table.js';
import { bucketText } from '../time-range.js';

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const EVENTS_SHOWN = 200;

/** @typedef {import('../sums.js').SumOf} SumOf */
/** @typedef {'day' | 'hour' | 'window'} Level what the rows of a page are */

/**
 * The breakdown of a sum: a range into days, a day into hours, an hour into windows, a window into
 * events. Each event links to its explanation. `isPortal`: the reader is the tenant, who does not
 * see billing systems.
 * @param {{ query: URLSearchParams, isPortal?: boolean }} properties
 */
export function SumsPage({ query, isPortal = false }) {
  const of = /** @type {SumOf} */ (/** @type {unknown} */ (Object.fromEntries(query)));
  const names = useNames();
  const lasts = Date.parse(of.to) - Date.parse(of.from);
  const { metric, tenant, sku, cluster } = of;
  const title = [
    names.metric(metric),
    ...(tenant ? [names.tenant(tenant)] : []),
    ...(sku ? [sku] : []),
    ...(cluster ? [names.cluster(cluster)] : []),
  ].join(', ');
  const isDay = Date.parse(of.from) % DAY_MS === 0 && lasts % DAY_MS === 0;
  return html`
    <${PageHead} title=${title} />
    <${Trail} steps=${stepsAbove(of)} here=${spanText(of.from, of.to)} />
    ${Number.isNaN(lasts) ? html`<p class="notice">This link names no time.</p>` : html`<${Parts} of=${of} level=${levelOf(lasts)} isPortal=${isPortal} />`}
    ${!isPortal && isDay && lasts === DAY_MS && html`<${Agreement} from=${of.from} to=${of.to} tenant=${tenant ?? ''} />`}
  `;
}

/** @param {number} lasts @returns {Level | 'event'} */
function levelOf(lasts) {
  if (lasts > DAY_MS) return 'day';
  if (lasts > HOUR_MS) return 'hour';
  return lasts === HOUR_MS ? 'window' : 'event';
}

/** Links to the larger ranges around a range. @param {SumOf} of */
function stepsAbove(of) {
  const start = Date.parse(of.from);
  const lasts = Date.parse(of.to) - start;
  const month = new Date(start).toISOString().slice(0, 7);
  const [year = 0, index = 1] = month.split('-').map(Number);
  const spans = [
    { from: Date.UTC(year, index - 1), to: Date.UTC(year, index) },
    ...[DAY_MS, HOUR_MS].map((length) => {
      const from = Math.floor(start / length) * length;
      return { from, to: from + length };
    }),
  ];
  return spans
    .filter(({ from, to }) => to - from > lasts)
    .map(({ from, to }) => {
      const [first, end] = [new Date(from).toISOString(), new Date(to).toISOString()];
      return { text: spanText(first, end), href: sumPlace({ ...of, from: first, to: end }) };
    });
}

/** @param {string} from @param {string} to */
function isMonth(from, to) {
  const [year = 0, index = 1] = from.slice(0, 7).split('-').map(Number);
  return Date.parse(from) === Date.UTC(year, index - 1) && Date.parse(to) === Date.UTC(year, index);
}

/** @param {string} from @param {string} to */
function spanText(from, to) {
  const lasts = Date.parse(to) - Date.parse(from);
  if (Number.isNaN(lasts)) return 'no time';
  if (lasts === DAY_MS) return dayText(from);
  if (isMonth(from, to)) return monthText(from.slice(0, 7));
  if (lasts > DAY_MS) {
    const last = new Date(Date.parse(to) - 1).toISOString();
    return `${dayText(from)} to ${dayText(last)}`;
  }
  return `${clock(from).slice(11)} to ${clock(to).slice(11)} UTC`;
}

const HEADS = { day: 'Day (UTC)', hour: 'Hour (UTC)', window: 'From (UTC)' };

/** @param {{ of: SumOf, level: Level | 'event', isPortal: boolean }} properties */
function Parts({ of, level, isPortal }) {
  if (level === 'event') return html`<${Events} of=${of} isPortal=${isPortal} />`;
  return html`<${PartSums} of=${of} level=${level} isPortal=${isPortal} />`;
}

/** @param {{ of: SumOf, level: Level, isPortal: boolean }} properties */
function PartSums({ of, level, isPortal }) {
  const names = useNames();
  const usage = useApi(url('/api/v1/usage', { ...of, group_by: level }));
  const { data } = usage;
  const rows = data?.rows ?? [];
  const total = data?.totals[0];
  const unit = total?.unit ?? '';
  const decimals = decimalsByUnit(rows).get(unit);
  const spans = rows.map((/** @type {any} */ row, /** @type {number} */ index) => ({
    ...spanOf(level, row[level], rows[index + 1]?.[level], of.to),
    row,
  }));
  if (level === 'window' && rows.length === 1)
    return html`<${Events} of=${of} isPortal=${isPortal} />`;
  return html`
    <${ErrorNotice} state=${usage} />
    ${data?.note && html`<p class="notice warn">${data.note}</p>`}
    ${
      data &&
      html`
      <${Card} title=${total === undefined ? 'Nothing' : `${quantity(total.quantity, decimals)} ${unitText(unit)} in ${counted(total.events, 'event')}`}>
        <${Table} caption=${`${names.metricWithUnit(of.metric, unit)} by ${bucketText(level)}`} rows=${spans} empty=${emptyText(level, data)}
          columns=${[
            text(
              HEADS[level],
              ({ from, to }) =>
                html`<a href=${sumPlace({ ...of, from, to })}>${level === 'day' ? dayText(from) : clock(from)}</a>`,
            ),
            figure(names.metricWithUnit(of.metric, unit), ({ row }) =>
              quantity(row.quantity, decimals),
            ),
            { name: 'Events', number: true, cell: (/** @type {any} */ { row }) => row.events },
          ]} />
      </${Card}>
    `
    }
  `;
}

/** @param {Level} level @param {any} usage */
function emptyText(level, usage) {
  if (level === 'window')
    return 'Nothing here. Shorter times are summed from the events, which are kept for RETENTION; hours are kept for 35 days and days for 400.';
  return level === 'hour'
    ? 'Nothing here. Hours are kept for 35 days, days for 400.'
    : noUsageText(usage);
}

/**
 * The range of a row. A window lasts until the next row or the end of the hour.
 * @param {Level} level
 * @param {string} start
 * @param {string | undefined} next
 * @param {string} end
 */
function spanOf(level, start, next, end) {
  const from = new Date(start).toISOString();
  if (level === 'window') return { from, to: next ?? end };
  const lasts = level === 'day' ? DAY_MS : HOUR_MS;
  return { from, to: new Date(Date.parse(from) + lasts).toISOString() };
}

/** @param {{ of: SumOf, isPortal: boolean }} properties */
function Events({ of, isPortal }) {
  const names = useNames();
  const events = useApi(url('/api/v1/events', { ...of, limit: EVENTS_SHOWN }));
  const rows = events.data?.items ?? [];
  const unit = rows[0]?.unit ?? '';
  const decimals = decimalsByUnit(rows).get(unit);
  const corrections = Map.groupBy(
    rows.filter((/** @type {any} */ event) => event.source === 'correction'),
    (/** @type {any} */ event) => event.properties?.corrects,
  );
  return html`
    <${ErrorNotice} state=${events} />
    ${
      events.data &&
      html`
      <${Card} title="Events">
        <${Table} caption=${rows.length < EVENTS_SHOWN ? 'What the sum is made of' : `The first ${EVENTS_SHOWN}`} rows=${rows}
          empty="None is kept. Events are kept for RETENTION, their sums for longer."
          columns=${[
            text(
              'Event',
              (event) =>
                html`<a href=${link(['events', event.id])}>Why ${quantity(event.quantity, decimals)}?</a>`,
            ),
            figure(names.metricWithUnit(of.metric, unit), (event) =>
              quantity(event.quantity, decimals),
            ),
            ...(isPortal
              ? []
              : [text('Tenant', (event) => html`<${TenantLink} id=${event.tenant} />`)]),
            text('SKU', (event) => event.sku ?? '–'),
            text('Tenant cluster', (event) => {
              const id = event.dimensions?.tenant_cluster;
              return id === undefined ? '–' : html`<${ClusterName} id=${id} />`;
            }),
            ...(corrections.size === 0
              ? []
              : [text('Correction', (event) => noteOf(event, corrections.get(event.id)))]),
          ]} />
      </${Card}>
    `
    }
  `;
}

/**
 * The note at a corrected event, and at a correction.
 * @param {any} event
 * @param {any[] | undefined} corrections of it
 */
function noteOf(event, corrections) {
  if (event.source === 'correction') {
    const { corrects, author, reason } = event.properties ?? {};
    return html`by ${author} of <a href=${link(['events', String(corrects)])}>another event</a>: ${reason}`;
  }
  if (corrections === undefined) return '–';
  return html`<a href=${link(['events', event.id])}>corrected ${corrections.length === 1 ? 'once' : `${corrections.length} times`}</a>`;
}
