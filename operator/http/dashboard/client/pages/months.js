import { html } from '../preact.js';
import { url, useApi } from '../api.js';
import { Agreement } from '../agreement.js';
import { BillFiles } from '../bill-files.js';
import { Card, Choice, ErrorNotice, Notice, PageHead, withChosen } from '../components.js';
import { Downloads } from '../downloads.js';
import { counted, monthText, quantity, time } from '../format.js';
import { GapList } from '../gap-list.js';
import { link, setQuery } from '../location.js';
import { useCosts } from '../money.js';
import { MonthTable } from '../month-table.js';
import { TenantChoice, useNames } from '../names.js';
import { monthOf } from '../time-range.js';
import { TokenCosts } from '../token-costs.js';

const REFRESH_MS = 60_000;
const DOWNTIME = 'tenant_gpu_downtime_hours';
const FIRST_METRIC = 'tenant_gpu_hours';
const MONTHS_OFFERED = 14;

/**
 * A calendar month, of all or of one tenant.
 * @param {{ month: string | undefined, query: URLSearchParams }} properties
 */
export function MonthPage({ month = monthOf(Date.now(), 0), query }) {
  const names = useNames();
  const tenant = query.get('tenant') ?? '';
  const address = `/api/v1/months/${month}`;
  const metrics = useApi(url(address, { tenant, group_by: 'metric' }), REFRESH_MS);
  const { data } = metrics;
  const title = `${monthText(month)}${tenant === '' ? '' : `, ${names.tenant(tenant)}`}`;
  return html`
    <${PageHead} title=${title}>
      <${MonthSteps} month=${month} tenant=${tenant} />
      <${TenantChoice} tenant=${tenant} />
    </${PageHead}>
    <${ErrorNotice} state=${metrics} />
    ${data && html`<${MonthNotes} month=${data} />`}
    ${data && html`<${ByMetric} month=${data} tenant=${tenant} />`}
    ${data && html`<${TokenCosts} month=${data} tenant=${tenant} />`}
    ${data && (tenant === '' ? html`<${ByTenant} address=${address} rows=${data.rows} query=${query} />` : html`<${BySku} address=${address} tenant=${tenant} />`)}
    ${data && html`<${Agreement} from=${data.from} to=${data.to} tenant=${tenant} />`}
    ${data && html`<${NotMeasured} month=${data} tenant=${tenant} />`}
  `;
}

/**
 * The months before and after, and a list of them.
 * @param {{ month: string, tenant: string }} properties
 */
function MonthSteps({ month, tenant }) {
  const now = Date.now();
  const months = Array.from({ length: MONTHS_OFFERED }, (_, back) => monthOf(now, back));
  const [year = 0, index = 1] = month.split('-').map(Number);
  const beside = (/** @type {number} */ step) =>
    new Date(Date.UTC(year, index - 1 + step)).toISOString().slice(0, 7);
  const to = (/** @type {string} */ other) => link(['months', other], { tenant });
  const [newest = month] = months;
  return html`
    <a class="button" href=${to(beside(-1))}>‹ ${monthText(beside(-1))}</a>
    ${month < newest && html`<a class="button" href=${to(beside(1))}>${monthText(beside(1))} ›</a>`}
    <${Choice} label="Month" value=${month} options=${withChosen(
      months.map((one) => [one, monthText(one)]),
      month,
    )} onChoose=${(/** @type {string} */ other) => location.assign(to(other))} />
  `;
}

/** @param {{ month: any }} properties */
function MonthNotes({ month }) {
  const { over, complete_days: days, measured_since: since, before } = month;
  const late = since !== undefined && Date.parse(since) > Date.parse(month.from);
  return html`
    ${month.note && html`<${Notice} title="Note"><p>${month.note}</p></${Notice}>`}
    ${since !== undefined && Date.parse(since) > Date.parse(`${before}-01`) && html`<p class="notice">Metering began on ${time(since)}: ${late ? `earlier usage of this month and of ${monthText(before)} is unknown.` : `earlier usage of ${monthText(before)} is unknown.`}</p>`}
    ${
      !over &&
      html`<p class="muted">
        The month is in progress, up to ${time(month.until)}. ${
          days === 0
            ? 'The change is known after its first full day.'
            : month.rows.every((/** @type {any} */ row) => row.change === undefined)
              ? `The change is unknown, because metering began during ${monthText(before)} or later.`
              : `Change: the first ${counted(days, 'day')} of ${monthText(month.month)} against the first ${counted(days, 'day')} of ${monthText(before)}.`
        } Forecast: usage so far plus, for each remaining day, the average of the last 7 full days, or of those since metering began.
      </p>`
    }
  `;
}

/** @param {{ month: any, tenant: string }} properties */
function ByMetric({ month, tenant }) {
  const { from, to, over } = month;
  const costs = useCosts({ from, to, tenant, group_by: 'metric' });
  const title = costs.total === '' ? '' : `: ${costs.total}${over ? '' : ' so far'}`;
  return html`
    <${Card} title=${`By metric${title}`}>
      ${costs.notice}
      <${MonthTable} month=${month} tenant=${tenant} by="metric" costs=${costs} />
      <${MonthFiles} month=${month} selection=${{ tenant, group_by: 'metric' }} costs=${costs} />
      <${BillFiles} month=${month.month} tenant=${tenant} isPriced=${costs.total !== ''} advice="For the statements of later months keep events for 62 days or more (RETENTION)." />
      ${costs.total !== '' && html`<p class="muted">Costs are usage × the prices of the price books, without taxes, fees, credits and discounts. The billing system makes the invoices. <a href=${link(['docs', 'how-to', 'costs.md'])}>What usage costs</a></p>`}
    </${Card}>
  `;
}

/**
 * @param {{ month: any, selection: Record<string, string>, costs: import('../money.js').Costs }}
 *   properties
 */
function MonthFiles({ month: { month, before }, selection, costs }) {
  const text = `${monthText(month)} against ${monthText(before)} as CSV`;
  return html`<${Downloads} files=${[...costs.files, { text, address: url(`/api/v1/months/${month}`, selection) }]} />`;
}

/** @param {{ address: string, rows: any[], query: URLSearchParams }} properties */
function ByTenant({ address, rows, query }) {
  const names = useNames();
  const codes = [...new Set(rows.map(({ metric }) => metric))];
  const first = codes.includes(FIRST_METRIC) ? FIRST_METRIC : codes[0];
  const metric = query.get('metric') ?? first;
  const month = useApi(metric && url(address, { group_by: 'tenant', metric }), REFRESH_MS);
  const { from, to } = month.data ?? {};
  const costs = useCosts(from && { from, to, metric, group_by: 'tenant' });
  if (metric === undefined) return null;
  const options = codes.map((code) => [code, names.metric(code)]);
  return html`
    <${Card} title="By tenant">
      <div class="controls">
        <${Choice} label="Metric" value=${metric} options=${withChosen(options, metric)} onChoose=${(/** @type {string} */ code) => setQuery({ metric: code })} />
      </div>
      <${ErrorNotice} state=${month} />
      ${costs.notice}
      ${month.data && html`<${MonthTable} month=${month.data} tenant="" by="tenant" costs=${costs} />`}
      ${month.data && html`<${MonthFiles} month=${month.data} selection=${{ metric, group_by: 'tenant' }} costs=${costs} />`}
    </${Card}>
  `;
}

/** @param {{ address: string, tenant: string }} properties */
function BySku({ address, tenant }) {
  const month = useApi(url(address, { group_by: 'sku', tenant }), REFRESH_MS);
  const { from, to } = month.data ?? {};
  const costs = useCosts(from && { from, to, tenant, group_by: 'sku' });
  return html`
    <${Card} title="By model and class">
      <${ErrorNotice} state=${month} />
      ${costs.notice}
      ${month.data && html`<${MonthTable} month=${{ ...month.data, rows: month.data.rows.filter((/** @type {any} */ row) => row.sku !== '') }} tenant=${tenant} by="sku" costs=${costs} />`}
      ${month.data && html`<${MonthFiles} month=${month.data} selection=${{ tenant, group_by: 'sku' }} costs=${costs} />`}
    </${Card}>
  `;
}

/** @param {{ month: any, tenant: string }} properties */
function NotMeasured({ month, tenant }) {
  const gaps = useApi(
    url('/api/v1/gaps', { from: month.from, to: month.until, tenant }),
    REFRESH_MS,
  );
  const down = month.rows.find((/** @type {any} */ row) => row.metric === DOWNTIME);
  const { measured_since: since } = month;
  const isLate = since !== undefined && Date.parse(since) > Date.parse(month.from);
  const groups = gaps.data === undefined ? [] : [...gaps.data.open, ...gaps.data.ended];
  return html`
    <${Card} title="What was not measured, and GPU downtime">
      <${ErrorNotice} state=${gaps} />
      ${isLate && html`<p>Usage before ${time(since)} is unknown: metering began then.</p>`}
      ${gaps.data && html`<${GapList} groups=${groups} empty=${isLate ? 'No gap after that is known.' : `No gap of ${monthText(month.month)} is known.`} />`}
      <p>GPU downtime: ${down === undefined ? 'none' : `${quantity(down.quantity)} GPU-hours, which are charged nowhere`}.</p>
      <p class="muted">Gaps are kept for at least 62 days. <a href=${link(['docs', 'how-to', 'month-end.md'])}>How to read this page</a></p>
    </${Card}>
  `;
}
