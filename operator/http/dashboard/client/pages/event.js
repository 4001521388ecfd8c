import { html } from '../preact.js';
import { useApi } from '../api.js';
import { Card, Notice, PageHead, Table, ErrorNotice } from '../components.js';
import { count, quantity, time } from '../format.js';
import { link } from '../location.js';

/** The objects, spans and rule behind one number. @param {{ id: string }} properties */
export function EventPage({ id }) {
  const explained = useApi(`/api/v1/events/${encodeURIComponent(id)}/explain`);
  return html`
    <${PageHead} title="Why this number" />
    <${ErrorNotice} state=${explained} />
    ${explained.data && html`<${Explanation} explanation=${explained.data} />`}
  `;
}

/** @param {{ explanation: any }} properties */
function Explanation({ explanation }) {
  const { event, source, rule, objects, not_listed: rest } = explanation;
  return html`
    ${explanation.backfilled && html`<${Notice} title="Backfilled"><p>The window was closed late, after downtime or a failed source.</p></${Notice}>`}
    ${
      (explanation.gaps ?? []).length > 0 &&
      html`
        <${Notice} title="Not everything was measured in this window">
          <ul>${explanation.gaps.map((/** @type {any} */ gap) => html`<li>${gap.source}, ${gap.scope}: ${gap.reason}</li>`)}</ul>
        </${Notice}>
      `
    }
    <div class="grid">
      <${Card} title="The event">
        <dl class="facts">
          <dt>Id</dt><dd><code>${event.id}</code></dd>
          <dt>Tenant</dt><dd><a href=${link(['tenants', event.tenant])}>${event.tenant}</a></dd>
          <dt>Metric</dt><dd>${event.metric}</dd>
          <dt>Quantity</dt><dd><strong>${event.quantity}</strong> ${event.unit}</dd>
          <dt>Window</dt><dd><a href=${link(['windows', event.window_end])}>${time(event.window_start)} to ${time(event.window_end)}</a></dd>
          <dt>Source</dt><dd>${source}</dd>
          ${event.sku && html`<dt>SKU</dt><dd>${event.sku}</dd>`}
          ${Object.entries(event.dimensions ?? {}).map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}
        </dl>
      </${Card}>
      <${Card} title="The rule">
        <p>${rule.text}</p>
        <p class="muted">In full: ${rule.documentation}</p>
        ${
          explanation.query &&
          html`
            <p>What Prometheus is asked, at ${time(explanation.query.time)}:</p>
            <pre tabindex="0">${explanation.query.promql}</pre>
          `
        }
        <dl class="facts">
          ${amount('Measured in the window', explanation.measured, event.unit)}
          ${amount('Carried from earlier windows', explanation.carried, event.unit)}
          ${amount('Given back for earlier windows', explanation.given_back, event.unit)}
        </dl>
      </${Card}>
    </div>
    <${Card} title="What it is made of">
      <${Table} caption=${`Stretches in which nothing changed: ${count(objects.length)}`} rows=${objects}
        empty=${source === 'collector' ? 'No object is kept for it.' : 'A client pushed this event: it has no objects here.'}
        columns=${[
          {
            name: 'Object',
            cell: (/** @type {any} */ one) =>
              `${one.kind} ${one.namespace ? `${one.namespace}/` : ''}${one.name}`,
          },
          { name: 'From', cell: (/** @type {any} */ one) => time(one.from) },
          { name: 'To', cell: (/** @type {any} */ one) => time(one.to) },
          {
            name: 'Seconds',
            number: true,
            cell: (/** @type {any} */ one) => quantity(one.seconds),
          },
          {
            name: event.unit,
            number: true,
            cell: (/** @type {any} */ one) => String(one.quantity),
          },
          { name: 'Size', cell: sizeOf },
          { name: 'Node', cell: nodeOf },
          {
            name: 'Whose it is',
            cell: (/** @type {any} */ one) =>
              `${one.owned_by}${one.carried ? '; carried from an earlier window' : ''}`,
          },
        ]} />
      ${rest && rest.count > 0 && html`<p>${count(rest.count)} more stretches make up ${String(rest.quantity)} ${event.unit}.</p>`}
    </${Card}>
  `;
}

/** @param {string} name @param {number | undefined} value @param {string} unit */
function amount(name, value, unit) {
  return value === undefined || value === 0
    ? null
    : html`<dt>${name}</dt><dd>${String(value)} ${unit}</dd>`;
}

/** @param {any} one */
function sizeOf({ gpus, requests, size_gib: size }) {
  if (gpus) return `${gpus.devices} × ${gpus.type}, ${gpus.profile} = ${quantity(gpus.gpus)} GPUs`;
  if (requests)
    return `requests ${quantity(requests.cpu)} CPU, ${quantity(requests.memory_gib)} GiB`;
  return size === undefined ? '–' : `${quantity(size)} GiB`;
}

/** The node, and the labels that decided what it counts as. @param {any} one */
function nodeOf({ node }) {
  if (node === undefined) return '–';
  const labels = Object.values(node.decided_by ?? {}).flat();
  return `${node.name}${node.down ? ' (down)' : ''}${labels.length > 0 ? `: ${labels.join(', ')}` : ''}`;
}
