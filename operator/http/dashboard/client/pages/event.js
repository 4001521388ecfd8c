import { html } from '../preact.js';
import { useApi } from '../api.js';
import { CopyButton } from '../buttons.js';
import { Card, ErrorNotice, Notice, PageHead, Trail } from '../components.js';
import { correctionsAddress, Corrections } from '../correction.js';
import { citedPlace } from '../documents.js';
import { clock, counted, dayText, exact, plain, quantity, time, unitText } from '../format.js';
import { causeText, scopeText } from '../gap-words.js';
import { link } from '../location.js';
import { ClusterName, keyName, sourceText, TenantLink, useNames } from '../names.js';
import { sumPlace } from '../sums.js';
import { figure, Table, text } from '../table.js';

/**
 * The objects, spans and rule behind one quantity, and its corrections. The event is shown also
 * when its evidence is no longer stored.
 * @param {{ id: string }} properties
 */
export function EventPage({ id }) {
  const explained = useApi(`/api/v1/events/${encodeURIComponent(id)}/explain`);
  const corrected = useApi(correctionsAddress(id));
  const event = corrected.data?.event ?? explained.data?.event;
  return html`
    <${PageHead} title="Why this number" />
    ${event && html`<${Steps} event=${event} />`}
    <${ErrorNotice} state=${explained} />
    ${explained.data && html`<${Notices} explanation=${explained.data} />`}
    <div class="grid">
      ${event && html`<${EventFacts} event=${event} />`}
      ${explained.data && explained.data.source !== 'correction' && html`<${Rule} explanation=${explained.data} />`}
    </div>
    ${explained.data && explained.data.source !== 'correction' && html`<${Objects} explanation=${explained.data} />`}
    ${corrected.data && html`<${Corrections} state=${corrected.data} onDone=${corrected.reload} />`}
    ${corrected.error && corrected.error.status !== explained.error?.status && html`<${ErrorNotice} state=${corrected} />`}
  `;
}

/**
 * `isPortal`: the reader is the tenant, who has pages for this tenant only.
 * @param {{ event: any, isPortal?: boolean }} properties
 */
export function Steps({ event, isPortal = false }) {
  const names = useNames();
  return html`<${Trail} steps=${stepsTo(event, names, isPortal)} here=${`${clock(event.window_start).slice(11)} to ${clock(event.window_end).slice(11)} UTC`} />`;
}

/** @param {{ explanation: any }} properties */
export function Notices({ explanation }) {
  const names = useNames();
  return html`
    ${explanation.backfilled && html`<${Notice} title="Backfilled"><p>This time was measured late, after an outage of the operator or of a source.</p></${Notice}>`}
    ${
      (explanation.gaps ?? []).length > 0 &&
      html`
        <${Notice} title="Not everything was measured in this time">
          <ul>${explanation.gaps.map((/** @type {any} */ gap) => html`<li>${causeText(gap.source)}: ${scopeText(gap.scope, names)}. ${gap.reason}</li>`)}</ul>
        </${Notice}>
      `
    }
  `;
}

/** @param {{ event: any, isPortal?: boolean }} properties */
export function EventFacts({ event, isPortal = false }) {
  const names = useNames();
  return html`
    <${Card} title="The event">
      <dl class="facts">
        <dt>Id</dt><dd><${CopyButton} text=${event.id} what="event id" /></dd>
        ${!isPortal && html`<dt>Tenant</dt><dd><${TenantLink} id=${event.tenant} /></dd>`}
        <dt>Metric</dt><dd>${names.metric(event.metric)} <${CopyButton} text=${event.metric} what="metric code" /></dd>
        <dt>Quantity</dt><dd><strong>${exact(event.quantity)}</strong> ${unitText(event.unit)}</dd>
        <dt>${isPortal ? 'Time' : 'Window'}</dt><dd>${isPortal ? windowText(event) : html`<a href=${link(['windows', event.window_end])}>${windowText(event)}</a>`}</dd>
        <dt>Source</dt><dd>${sourceText(event.source ?? '')}</dd>
        ${event.sku && html`<dt>SKU</dt><dd>${event.sku}</dd>`}
        ${Object.entries(event.dimensions ?? {}).map(([name, value]) => html`<dt>${keyName(name)}</dt><dd>${name === 'tenant_cluster' ? html`<${ClusterName} id=${value} />` : names.value(name, String(value))}</dd>`)}
      </dl>
    </${Card}>
  `;
}

/** @param {any} event */
function windowText({ window_start: start, window_end: end }) {
  return `${time(start)} to ${time(end)}`;
}

/** @param {{ explanation: any, isPortal?: boolean }} properties */
export function Rule({ explanation, isPortal = false }) {
  const { event, rule, query } = explanation;
  return html`
    <${Card} title="The rule">
      <p>${rule.text}</p>
      ${!isPortal && html`<p><a href=${citedPlace(rule.documentation)}>The rule in full</a></p>`}
      ${
        query &&
        html`
          <p>The query to Prometheus, at ${time(query.time)}:</p>
          <pre tabindex="0">${query.promql}</pre>
        `
      }
      <dl class="facts">
        ${amount('Measured in this time', explanation.measured, event.unit)}
        ${amount('Carried from earlier times', explanation.carried, event.unit)}
        ${amount('Reversed for earlier times', explanation.given_back, event.unit)}
      </dl>
    </${Card}>
  `;
}

/** @param {{ explanation: any }} properties */
export function Objects({ explanation }) {
  const { event, source, objects, not_listed: remainder } = explanation;
  return html`
    <${Card} title="What it is made of">
      <${Table} caption=${`${counted(objects.length, 'period')} in which nothing changed`} rows=${objects}
        empty=${source === 'collector' ? 'No object is kept for it.' : 'A client pushed this event: it has no objects here.'}
        columns=${[
          text(
            'Object',
            (one) => `${one.kind} ${one.namespace ? `${one.namespace}/` : ''}${one.name}`,
          ),
          text('From (UTC)', (one) => moment(one.from, event)),
          text('To (UTC)', (one) => moment(one.to, event)),
          figure('Seconds', (one) => quantity(one.seconds)),
          figure(unitText(event.unit), (one) => exact(one.quantity)),
          { name: 'Size', cell: sizeOf },
          { name: 'Node', cell: nodeOf },
          text(
            'Owner',
            (one) => `${one.owned_by}${one.carried ? '; carried from an earlier time' : ''}`,
          ),
        ]} />
      ${remainder && remainder.count > 0 && html`<p>${counted(remainder.count, 'more period')} make up ${exact(remainder.quantity)} ${unitText(event.unit)}.</p>`}
    </${Card}>
  `;
}

/**
 * The time of day; with the date when that is not the date of the event.
 * @param {string} at
 * @param {any} event
 */
function moment(at, { window_start: start }) {
  return at.slice(0, 10) === start.slice(0, 10) ? clock(at).slice(11) : clock(at);
}

/**
 * The sums that the event belongs to, the largest first.
 * @param {any} event
 * @param {import('../names.js').Names} names
 * @param {boolean} isPortal
 */
function stepsTo(event, names, isPortal) {
  const { tenant, metric, sku, window_start: start } = event;
  const of = { tenant, metric, sku, cluster: event.dimensions?.tenant_cluster };
  const [year = 0, month = 1, day = 1] = start.slice(0, 10).split('-').map(Number);
  const hour = Number(start.slice(11, 13));
  const place = (/** @type {number} */ from, /** @type {number} */ to) =>
    sumPlace({ ...of, from: new Date(from).toISOString(), to: new Date(to).toISOString() });
  return [
    { text: names.tenant(tenant), href: link(isPortal ? [] : ['tenants', tenant]) },
    {
      text: `${names.metric(metric)}, by day`,
      href: place(Date.UTC(year, month - 1), Date.UTC(year, month)),
    },
    {
      text: dayText(start),
      href: place(Date.UTC(year, month - 1, day), Date.UTC(year, month - 1, day + 1)),
    },
    {
      text: `${start.slice(11, 13)}:00`,
      href: place(Date.UTC(year, month - 1, day, hour), Date.UTC(year, month - 1, day, hour + 1)),
    },
  ];
}

/** @param {string} name @param {number | undefined} value @param {string} unit */
function amount(name, value, unit) {
  return value === undefined || value === 0
    ? null
    : html`<dt>${name}</dt><dd>${exact(value)} ${unitText(unit)}</dd>`;
}

/** @param {any} one */
function sizeOf({ gpus, requests, size_gib: size }) {
  if (gpus) return `${gpus.devices} × ${gpus.type}, ${gpus.profile} = ${plain(gpus.gpus)} GPUs`;
  if (requests) return `requests ${plain(requests.cpu)} CPU, ${plain(requests.memory_gib)} GiB`;
  return size === undefined ? '–' : `${plain(size)} GiB`;
}

/** The node, and the labels that decided what it counts as. @param {any} one */
function nodeOf({ node }) {
  if (node === undefined) return '–';
  const labels = Object.values(node.decided_by ?? {}).flat();
  return `${node.name}${node.down ? ' (down)' : ''}${labels.length > 0 ? `: ${labels.join(', ')}` : ''}`;
}
