import { html } from '../preact.js';
import { Agreement, PricesDiffer } from '../agreement.js';
import { Badge, Card, ErrorNotice, Notice, PageHead } from '../components.js';
import { DeadLetters } from '../dead-letters.js';
import { ago, count, counted, duration, plain, quantity, signed, time } from '../format.js';
import { link } from '../location.js';
import { TenantLink, useNames } from '../names.js';
import { figure, Table, text } from '../table.js';

const DAY_MS = 86_400_000;
/** The billing system has less than was delivered, so it bills too little. */
const isShort = (/** @type {any} */ row) => row.difference < 0;

/**
 * The state of a destination in a word. Events that wait are not lost; refused events are not
 * billed.
 * @param {any} one
 * @returns {{ tone: 'good' | 'warn' | 'bad', word: string }}
 */
export function healthOf(one) {
  if (one.problem?.in_force === false) return { tone: 'bad', word: 'cannot start' };
  if (one.problem !== undefined) return { tone: 'warn', word: 'newest settings refused' };
  if (one.suspended) return { tone: 'warn', word: 'suspended' };
  if (one.dead_letters > 0) return { tone: 'bad', word: 'dead letters' };
  if (one.blocked !== undefined) return { tone: 'warn', word: 'blocked' };
  if (!one.bootstrapped) return { tone: 'warn', word: 'not set up' };
  if (one.consecutive_failures > 0) return { tone: 'warn', word: 'failing' };
  if (one.parked_events > 0) return { tone: 'warn', word: 'waiting for tenants' };
  if (one.drift?.differing_rows > 0)
    return { tone: one.drift.examples.some(isShort) ? 'bad' : 'warn', word: 'sums differ' };
  if (one.invoices?.differing_rows > 0)
    return { tone: one.invoices.examples.some(isShort) ? 'bad' : 'warn', word: 'invoices differ' };
  if (one.unpriced.length > 0) return { tone: 'warn', word: 'without a price' };
  if (one.prices?.differing > 0) return { tone: 'warn', word: 'prices differ' };
  return one.ready ? { tone: 'good', word: 'OK' } : { tone: 'warn', word: 'not ready' };
}

/** @param {number} now */
export function destinationColumns(now) {
  return [
    text('Destination', (one) => html`<a href=${link(['destinations', one.name])}>${one.name}</a>`),
    text('Type', (one) => one.type),
    text(
      'State',
      (one) => html`<${Badge} tone=${healthOf(one).tone}>${healthOf(one).word}</${Badge}>`,
    ),
    figure('Behind', (one) =>
      one.lag_records === 0
        ? 'nothing'
        : `${counted(one.lag_records, 'event')}, ${duration(one.lag_seconds)}`,
    ),
    figure('Dead letters', (one) => count(one.dead_letters)),
    text('Last delivery', (one) => ago(one.last_success, now)),
    text('Last error', (one) => one.last_error ?? '–'),
  ];
}

/** @param {{ status: any }} properties */
export function DestinationsPage({ status }) {
  return html`
    <${PageHead} title="Destinations" />
    <p class="muted">Each destination receives the events at its own speed. A dead letter is an event that it refused for good.</p>
    <${ErrorNotice} state=${status} />
    ${
      status.data &&
      html`
      <${Card}>
        <${Table} caption="All destinations" rows=${status.data.destinations} columns=${destinationColumns(Date.now())}
          empty="No destination is configured. Usage is metered and kept: apply a BillingDestination (see config/samples) and everything from then on is delivered." />
      </${Card}>
    `
    }
  `;
}

/** @param {{ name: string, status: any }} properties */
export function DestinationPage({ name, status }) {
  const one = status.data?.destinations.find(
    (/** @type {any} */ candidate) => candidate.name === name,
  );
  return html`
    <${PageHead} title=${name}><a href=${link(['destinations'])}>All destinations</a></${PageHead}>
    <${ErrorNotice} state=${status} />
    ${status.data && one === undefined && html`<p class="notice">No destination of this name is configured now.</p>`}
    ${one && html`<${Facts} one=${one} />`}
    ${one && html`<${DeadLetters} one=${one} onChange=${status.reload} />`}
    ${one?.plan_changes.length > 0 && html`<${PlanChanges} changes=${one.plan_changes} />`}
    ${one && html`<${OtherSide} one=${one} />`}
    ${one?.invoices && html`<${Invoices} invoices=${one.invoices} />`}
    ${one && html`<${Agreement} from=${daysAgo(1)} to=${daysAgo(0)} tenant="" destination=${name} />`}
  `;
}

/** The beginning of a UTC day. @param {number} days */
function daysAgo(days) {
  return new Date((Math.floor(Date.now() / DAY_MS) - days) * DAY_MS).toISOString();
}

/** @param {{ one: any }} properties */
function Facts({ one }) {
  const now = Date.now();
  const { tone, word } = healthOf(one);
  return html`
    ${one.blocked !== undefined && html`<${Notice} title="Nothing is sent until this is fixed"><p>${one.blocked}</p></${Notice}>`}
    <div class="grid">
      <${Card} title="Delivery">
        <dl class="facts">
          <dt>State</dt><dd><${Badge} tone=${tone}>${word}</${Badge}>${one.summary !== 'OK' && html` ${one.summary}`}</dd>
          <dt>Type</dt><dd>${one.type}</dd>
          <dt>Cursor</dt><dd>${count(one.cursor)} of ${count(one.committed)}${one.cursor_window_end ? `, window until ${time(one.cursor_window_end)}` : ''}</dd>
          <dt>Behind</dt><dd>${one.lag_records === 0 ? 'nothing' : `${counted(one.lag_records, 'event')}, ${duration(one.lag_seconds)}`}</dd>
          <dt>Delivered</dt><dd>${count(one.delivered_events)} since the operator started; ${count(one.skipped_events)} not wanted here</dd>
          ${one.offboarding_tenants > 0 && html`<dt>Leaving</dt><dd>${counted(one.offboarding_tenants, 'tenant')}, once the last usage is there</dd>`}
          ${one.unknown_metrics.length > 0 && html`<dt>Unknown metrics</dt><dd>${one.unknown_metrics.join(', ')}: named in its settings, but not in the catalog</dd>`}
          <dt>Last delivery</dt><dd>${ago(one.last_success, now)}</dd>
          <dt>Last error</dt><dd>${one.last_error ? `${time(one.last_error_at)}: ${one.last_error}` : 'none'}</dd>
        </dl>
        <p class="muted">The cursor is the number of the last event that the destination has. A window is the time that one event measures.</p>
      </${Card}>
      <${Card} title="Tenants that wait">
        <${Table} caption="Their events are kept in order and sent when the tenant can be set up" rows=${one.parked_tenants} empty="None."
          columns=${[
            text('Tenant', (parked) => html`<${TenantLink} id=${parked.tenant} />`),
            figure('Events', (parked) => count(parked.events)),
            text('Since', (parked) => time(parked.since)),
            text('Reason', (parked) => parked.reason),
          ]} />
      </${Card}>
    </div>
  `;
}

/** Changes of plan that are not made yet. @param {{ changes: any[] }} properties */
function PlanChanges({ changes }) {
  const now = Date.now();
  const stage = (/** @type {any} */ { at, problem }) => {
    if (problem !== undefined) return `failed at the last attempt: ${problem}`;
    return Date.parse(at) > now
      ? 'scheduled'
      : 'waits until the earlier usage is delivered and summed up';
  };
  return html`
    <${Card} title="Changes of plan">
      <p class="muted">
        Usage before the change is billed by the present plan. Usage after it waits for the new plan; other tenants do
        not wait.
      </p>
      <${Table} caption="Still to be made" rows=${changes} empty="None."
        columns=${[
          text('Tenant', (change) => html`<${TenantLink} id=${change.tenant} />`),
          text('Now', (change) => change.from),
          text('New', (change) => change.to),
          text('From', (change) => time(change.at)),
          text('Requested on', (change) => time(change.since)),
          text('State', stage),
        ]} />
    </${Card}>
  `;
}

/**
 * Reports of the billing system: missing prices, sums that differ.
 * @param {{ one: any }} properties
 */
function OtherSide({ one }) {
  const names = useNames();
  const { unpriced, drift, rate, rate_limit: limit, late_refusals: refusals } = one;
  return html`
    <${Card} title="What the billing system reports">
      <${PricesDiffer} prices=${one.prices} />
      ${
        limit &&
        html`<p class="notice warn">
          Its rate limit allows fewer events than are metered: ${plain(limit.events_per_second)} of
          ${plain(limit.needed_events_per_second)} a second.
        </p>`
      }
      ${
        rate &&
        limit === undefined &&
        html`<p>
          About ${plain(rate.events_per_second)} of the ${plain(rate.limit)} events a second that it takes are in use,
          ${plain(rate.headroom)} are left.
        </p>`
      }
      ${
        drift === undefined
          ? html`<p class="empty">Yesterday has not been compared yet, or cannot be at this destination.</p>`
          : html`
              <p>
                ${drift.day}: ${counted(drift.compared_rows, 'sum')} of tenant and metric compared
                ${ago(drift.compared_at, Date.now())}, ${count(drift.differing_rows)} differ,
                ${count(drift.unanswered_rows)} were not answered.
              </p>
              <${Table} caption="Sums that differ" rows=${drift.examples} empty="None differ."
                columns=${[
                  text('Tenant', (row) => html`<${TenantLink} id=${row.tenant} />`),
                  text('Metric', (row) => names.metricWithUnit(row.metric)),
                  figure('Billing system has more by', (row) => signed(row.difference)),
                ]} />
            `
      }
      <${Table} caption="Delivered usage without a price there" rows=${unpriced} empty="No usage without a price is known."
        columns=${[
          text('Metric', (row) => names.metricWithUnit(row.metric)),
          text('SKU', (row) => row.sku ?? 'any'),
          text('Plan or rate card', (row) => row.plan),
          figure('On no invoice yet', (row) =>
            row.at_stake === undefined ? 'not known' : quantity(Number(row.at_stake)),
          ),
          text('Billed if priced by', (row) =>
            row.saved_until === undefined ? '–' : time(row.saved_until),
          ),
        ]} />
      <${Table} caption="Accepted usage that it does not bill" rows=${refusals} empty="It bills all usage that it accepted, as far as is known."
        columns=${[
          text('Found', (row) => time(row.at)),
          figure('Events', (row) => count(row.events)),
          text('Reason', (row) => row.reason),
          text('One of them', (row) =>
            row.example === undefined
              ? '–'
              : html`<a href=${link(['events', row.example])}>Explain</a>`,
          ),
        ]} />
    </${Card}>
  `;
}

/** Final invoices against what was delivered. @param {{ invoices: any }} properties */
function Invoices({ invoices }) {
  const names = useNames();
  return html`
    <${Card} title="Invoices">
      <p>
        Final invoices of ${counted(invoices.tenants, 'tenant')} compared with what was delivered
        ${ago(invoices.compared_at, Date.now())}, ${counted(invoices.differing_rows, 'sum')} differ.
      </p>
      ${
        invoices.problem &&
        html`<p class="notice warn">
          ${counted(invoices.unanswered_tenants, 'tenant')} could not be read: ${invoices.problem}
        </p>`
      }
      <${Table} caption="Invoices that differ from what was delivered" rows=${invoices.examples} empty="None differ."
        columns=${[
          text('Tenant', (row) => html`<${TenantLink} id=${row.tenant} />`),
          text('Metric', (row) => names.metricWithUnit(row.metric)),
          figure('Invoiced more by', (row) => signed(row.difference)),
          figure('Worth about', (row) =>
            row.amount === undefined
              ? '–'
              : `${signed(row.amount.value, 2)} ${row.amount.currency}`,
          ),
          text('Usage before', (row) => time(row.until)),
          text('Cause', (row) => row.cause),
        ]} />
    </${Card}>
  `;
}
