import { html, useState } from './preact.js';
import { read, url } from './api.js';
import { Badge, Card, Notice, Skeleton } from './components.js';
import { count, counted, dayText, quantity, signed } from './format.js';
import { TenantLink, useNames } from './names.js';
import { Table } from './table.js';

const DAY_MS = 86_400_000;
/** A month is read event by event, with a request to the billing system for each sum. */
const PATIENCE_MS = 300_000;

/**
 * Compares metered sums with those of the billing systems, on demand.
 * @param {{ from: string, to: string, tenant: string, destination?: string }} properties whole UTC
 *   days
 */
export function Agreement({ from, to, tenant, destination }) {
  const [day, setDay] = useState('');
  const tomorrow = (Math.floor(Date.now() / DAY_MS) + 1) * DAY_MS;
  const end = new Date(Math.min(Date.parse(to), tomorrow)).toISOString();
  const [first, last] = day === '' ? [from.slice(0, 10), dayBefore(end)] : [day, day];
  const address = url('/api/v1/reconcile', {
    from: first,
    to: new Date(Date.parse(last) + DAY_MS).toISOString().slice(0, 10),
    tenant,
    destination,
  });
  const [comparisons, setComparisons] = useState(/** @type {Record<string, any>} */ ({}));
  const state = comparisons[address];
  const compare = async () => {
    setComparisons({ [address]: { busy: true } });
    try {
      setComparisons({ [address]: { data: await read(address, { patience: PATIENCE_MS }) } });
    } catch (error) {
      setComparisons({
        [address]: { error: error instanceof Error ? error.message : String(error) },
      });
    }
  };
  return html`
    <${Card} title="Does the billing system agree?">
      <p class="muted">
        For each tenant and metric: the delivered sum against the sum that the billing system reports. Where it reports
        none, against what it acknowledged.
      </p>
      ${
        Date.parse(end) - Date.parse(from) > DAY_MS &&
        html`<label class="field">One day of it (UTC) <input type="date" min=${from.slice(0, 10)} max=${dayBefore(end)} value=${day} onChange=${(/** @type {any} */ event) => setDay(event.currentTarget.value)} /></label>`
      }
      <p>${first === last ? dayText(first) : `${dayText(first)} to ${dayText(last)}`}</p>
      <p><button class="primary" onClick=${compare} disabled=${state?.busy}>${state === undefined ? 'Compare now' : 'Compare again'}</button></p>
      <div role="status">
        ${state?.busy && html`<${Skeleton} />`}
        ${state?.error && html`<${Notice} title="The comparison failed"><p>${state.error}</p></${Notice}>`}
        ${state?.data && html`<${Results} answer=${state.data} />`}
      </div>
    </${Card}>
  `;
}

/** @param {string} end */
function dayBefore(end) {
  return new Date(Date.parse(end) - 1).toISOString().slice(0, 10);
}

/** @param {{ answer: any }} properties */
function Results({ answer }) {
  const { results, note } = answer;
  if (results.length === 0) return html`<p>No destination is configured.</p>`;
  return html`
    ${note && html`<${Notice} title="Note"><p>${note}</p></${Notice}>`}
    ${results.map((/** @type {any} */ one) => html`<${Result} result=${one} />`)}
  `;
}

/** @param {{ result: any }} properties */
function Result({ result: { destination, error, prices, rows } }) {
  const names = useNames();
  const compared = rows.filter((/** @type {any} */ row) => row.match !== undefined);
  const differing = compared.filter((/** @type {any} */ row) => !row.match);
  const unanswered = rows.length - compared.length;
  const unsent = rows.filter((/** @type {any} */ row) => unsentOf(row) > 0);
  const counts = [
    `${count(compared.length - differing.length)} agree to the last digit`,
    ...(differing.length > 0 ? [`${count(differing.length)} differ`] : []),
    ...(unanswered > 0 ? [`${count(unanswered)} could not be compared`] : []),
  ].join(', ');
  return html`
    <h3>${destination} <${AgreementBadge} rows=${rows} differing=${differing.length} unanswered=${unanswered} error=${error} prices=${prices} /></h3>
    <${PricesDiffer} prices=${prices} />
    ${error && html`<p>${error}</p>`}
    ${rows.length > 0 && html`<p>${counted(rows.length, 'sum')} of tenant and metric: ${counts}.${unsent.length > 0 && ` ${counted(unsent.length, 'sum is', 'sums are')} not completely sent.`}</p>`}
    ${
      differing.length > 0 &&
      html`<${Table} caption="Sums that differ" rows=${differing} empty="None."
        columns=${[...whose(names), figure('Delivered', (row) => row.expected), figure('Billing system', (row) => row.recorded ?? row.acknowledged), { name: 'Billing system has more by', number: true, cell: (/** @type {any} */ row) => signed(row.difference) }]} />`
    }
    ${
      unsent.length > 0 &&
      html`<${Table} caption="Sums that are not completely sent" rows=${unsent} empty="None."
        columns=${[...whose(names), figure('Metered', (row) => row.ledger), figure('Queued', (row) => row.pending), figure('Waits for its tenant', (row) => row.parked), figure('Refused', (row) => row.dead_lettered), figure('Never sent', (row) => row.withheld)]} />`
    }
  `;
}

/**
 * @param {{ rows: any[], differing: number, unanswered: number, error: string | undefined, prices:
 *   any }} properties
 */
function AgreementBadge({ rows, differing, unanswered, error, prices }) {
  const short = rows.some((row) => row.difference < 0);
  if (differing > 0)
    return html`<${Badge} tone=${short ? 'bad' : 'warn'}>does not agree</${Badge}>`;
  if (error !== undefined || unanswered > 0)
    return html`<${Badge} tone="warn">${rows.length === 0 ? 'not compared' : 'not all compared'}</${Badge}>`;
  if (rows.length === 0) return html`<${Badge} tone="plain">nothing to compare</${Badge}>`;
  if (prices?.differing > 0)
    return html`<${Badge} tone="warn">sums agree, prices differ</${Badge}>`;
  return html`<${Badge} tone="good">agrees</${Badge}>`;
}

/**
 * The prices of a billing system that differ from the price books; the first three of them.
 * @param {{ prices: any }} properties
 */
export function PricesDiffer({ prices }) {
  if (!(prices?.differing > 0)) return null;
  const title = `${counted(prices.differing, 'price differs', 'prices differ')} from the price books`;
  return html`
    <${Notice} title=${title}>
      <p>With today’s prices its invoices show other amounts than the costs here, even where the sums agree:</p>
      <ul>${prices.examples.map((/** @type {string} */ example) => html`<li>${example}</li>`)}</ul>
    </${Notice}>
  `;
}

/** @param {any} row */
function unsentOf({ pending, parked, dead_lettered: refused, withheld }) {
  return pending + parked + refused + withheld;
}

/** @param {import('./names.js').Names} names */
function whose(names) {
  return [
    { name: 'Tenant', cell: (/** @type {any} */ row) => html`<${TenantLink} id=${row.tenant} />` },
    { name: 'Metric', cell: (/** @type {any} */ row) => names.metricWithUnit(row.metric) },
  ];
}

/** @param {string} name @param {(row: any) => number} of */
function figure(name, of) {
  return { name, number: true, cell: (/** @type {any} */ row) => quantity(of(row)) };
}
