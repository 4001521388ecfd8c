import { html } from '../preact.js';
import { useApi, url } from '../api.js';
import { BillFiles } from '../bill-files.js';
import { amountText, BudgetCard, toneOf } from '../budget.js';
import { Card, Choice, ErrorNotice, PageHead, Tile } from '../components.js';
import { Downloads } from '../downloads.js';
import { duration, monthText, quantity, time } from '../format.js';
import { causeText, gapTime, scopeText } from '../gap-words.js';
import { GpuTable, GpuWords } from '../gpu-table.js';
import { unknownBefore } from '../holes.js';
import { setQuery } from '../location.js';
import { useCosts } from '../money.js';
import { KEYS, useNames } from '../names.js';
import { TenantSums } from '../pages/tenant.js';
import { UsageChart } from '../pages/usage.js';
import { RangePicker, rangeOf } from '../time-range.js';
import { Tokens } from '../tokens.js';

const REFRESH_MS = 60_000;
const FIRST_METRIC = 'tenant_gpu_hours';
const DOWNTIME = 'tenant_gpu_downtime_hours';
const SPLITS = KEYS.filter(([key]) => key !== 'tenant' && key !== 'source');
/** The offered ranges. The last hour is not among them: it would need steps of a window. */
const RANGES = ['month', 'last-month', '7d', '24h', 'custom'];
const NO_WINDOWS = 3600;

/**
 * Everything at a glance.
 * @param {{ id: string, tenant: any, query: URLSearchParams }} properties
 */
export function PortalOverview({ id, tenant, query }) {
  const names = useNames();
  const range = rangeOf(query, Date.now());
  const { from, to } = range;
  const usage = useApi(
    url('/api/v1/usage', { group_by: 'sku,tenant_cluster', from, to }),
    REFRESH_MS,
  );
  const gaps = useApi(url('/api/v1/gaps', { from, to }), REFRESH_MS);
  const costs = useCosts({ group_by: 'sku,tenant_cluster', from, to });
  const totals = usage.data?.totals ?? [];
  const codes = totals.map((/** @type {any} */ total) => total.metric);
  const metric =
    query.get('metric') ??
    (codes.length === 0 || codes.includes(FIRST_METRIC) ? FIRST_METRIC : String(codes[0]));
  const split = query.get('by') ?? names.splitOf(metric);
  const options = [...new Set([metric, ...codes])].map((code) => [code, names.metric(code)]);
  const choose = (/** @type {string} */ name) => (/** @type {string} */ value) =>
    setQuery({ [name]: value });
  const budget = tenant.data?.budget;
  const state = tenant.data?.billing_state;
  return html`
    <${PageHead} title=${`Usage of ${tenant.data?.display_name ?? id}`}>
      <${RangePicker} range=${range} only=${RANGES} />
    </${PageHead}>
    ${
      tenant.error?.status === 404
        ? html`<p class="notice">No tenant cluster exists now. What was used before is below.</p>`
        : html`<${ErrorNotice} state=${tenant} />`
    }
    ${state === 'suspended' && html`<p class="notice bad" role="alert">Suspended: new pods do not start. Please contact your provider.</p>`}
    ${state !== 'suspended' && tenant.data?.gateway_access?.has_access === false && html`<p class="notice bad" role="alert">Requests at AI gateways are refused. Please contact your provider.</p>`}
    <div class="tiles">
      ${costs.total !== '' && html`<${Tile} label="Cost in this time" value=${costs.total} note="by the prices in force, before discounts and taxes" />`}
      ${budget && html`<${Tile} label="Left of the budget" value=${amountText(budget, budget.left)} tone=${toneOf(budget)} />`}
      ${gaps.data && html`<${Tile} label="Not measured" value=${notMeasured(gaps.data)} tone=${gaps.data.open.length > 0 ? 'warn' : 'plain'} note=${gaps.data.open.length > 0 ? 'continues' : 'not billed'} />`}
      ${totals.filter((/** @type {any} */ total) => total.metric === DOWNTIME).map((/** @type {any} */ total) => html`<${Tile} label="GPU downtime" value=${quantity(total.quantity)} note="GPU-hours that are not billed" />`)}
    </div>
    ${budget && html`<${BudgetCard} budget=${budget} />`}
    <div class="controls">
      <${Choice} label="Metric" value=${metric} options=${options} onChoose=${choose('metric')} />
      <${Choice} label="Split by" value=${split} options=${SPLITS} onChoose=${choose('by')} />
    </div>
    <${UsageChart} selection=${{ metric, tenant: '', from, to }} by=${split} range=${range} windowSeconds=${NO_WINDOWS} />
    <${Card} title="Usage and cost">
      <${ErrorNotice} state=${usage} />
      ${usage.data?.note && html`<p class="notice warn">${usage.data.note}</p>`}
      ${usage.data && html`<${TenantSums} id=${id} range=${range} usage=${usage.data} />`}
    </${Card}>
    <${Tokens} range=${range} />
    <${Bill} id=${id} month=${from.slice(0, 7)} isPriced=${costs.total !== ''} />
    <${Gpus} range=${range} />
    <${Card} title="What was not measured">
      <${ErrorNotice} state=${gaps} />
      ${gaps.data && html`<${Gaps} gaps=${gaps.data} />`}
    </${Card}>
  `;
}

/**
 * The month in which the range begins, as files that the tenant can load and check.
 * @param {{ id: string, month: string, isPriced: boolean }} properties
 */
function Bill({ id, month, isPriced }) {
  return html`
    <${Card} title=${`The bill of ${monthText(month)}`}>
      ${isPriced && html`<p>The FOCUS file has the charges for finance tools; the manifest says what it lacks.</p>`}
      <p>The statement has every event of the month, the prices and the amounts, signed. A short program checks it without your provider.</p>
      <${BillFiles} month=${month} tenant=${id} isPriced=${isPriced} advice="Please contact your provider." />
    </${Card}>
  `;
}

/**
 * The tenant's GPU-hours; hidden when it has no GPUs.
 * @param {{ range: import('../time-range.js').TimeRange }} properties
 */
function Gpus({ range: { from, to } }) {
  const gpus = useApi(url('/api/v1/gpus', { group_by: 'gpu_type', from, to }), REFRESH_MS);
  const { data } = gpus;
  if (data?.rows.length === 0) return null;
  return html`
    <${Card} title="GPUs">
      <${ErrorNotice} state=${gpus} />
      ${data?.note && html`<p class="notice warn">${data.note}</p>`}
      ${data && Date.parse(data.measured_since) > Date.parse(from) && html`<p class="notice">These figures begin on ${time(data.measured_since)}.</p>`}
      ${data && html`<${GpuTable} caption=${`GPU-hours from ${time(from)} to ${time(to)}`} rows=${data.rows} names=${[{ name: 'GPU', cell: (/** @type {any} */ row) => row.gpu_type }]} empty="No GPUs in this time." />`}
      <${GpuWords} />
      <${Downloads} files=${[{ text: 'GPUs as CSV', address: url('/api/v1/gpus', { group_by: 'gpu_type,day', from, to }) }]} />
    </${Card}>
  `;
}

/** The time that was not measured; overlapping stretches count once. @param {any} gaps */
function notMeasured(gaps) {
  const stretches = [...gaps.open, ...gaps.ended]
    .flatMap(({ stretches: all }) => all)
    .concat(unknownBefore(gaps))
    .map((/** @type {any} */ one) => [Date.parse(one.from), Date.parse(one.to)])
    .toSorted(([a = 0], [b = 0]) => a - b);
  let [seconds, end] = [0, 0];
  for (const [from = 0, to = 0] of stretches) {
    seconds += Math.max(0, to - Math.max(from, end)) / 1000;
    end = Math.max(end, to);
  }
  return seconds === 0 ? 'nothing' : duration(seconds);
}

/** @param {{ gaps: any }} properties */
function Gaps({ gaps }) {
  const names = useNames();
  const groups = [...gaps.open, ...gaps.ended];
  const [before] = unknownBefore(gaps);
  if (groups.length === 0 && before === undefined)
    return html`<p class="empty">Everything was measured in this time.</p>`;
  return html`
    <ul class="gaps">
      ${before && html`<li><strong><span class="swatch before"></span>Before metering began</strong><span>until ${time(before.to)}: unknown</span></li>`}
      ${groups.map(
        (group) => html`
          <li class=${group.open ? 'open' : ''}>
            <strong>${causeText(group.source)}</strong>
            <span>${gapTime(group)}</span>
            <span>Missing: ${group.scopes.map((/** @type {string} */ scope) => scopeText(scope, names)).join(', ')}</span>
          </li>
        `,
      )}
    </ul>
    <p class="muted">What was not measured is not billed, unless it can be measured later.</p>
  `;
}
