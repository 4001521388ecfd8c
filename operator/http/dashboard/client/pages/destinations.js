import { html, useState } from '../preact.js';
import { change, useApi, url } from '../api.js';
import { Badge, Card, ConfirmButton, Notice, PageHead, Table, ErrorNotice } from '../components.js';
import { ago, count, duration, quantity, time } from '../format.js';
import { link } from '../location.js';

const REFRESH_MS = 15_000;
const PAGE = 100;

/** How a destination is, in a word. @param {any} one @returns {{ tone: 'good' | 'warn' | 'bad', word: string }} */
export function healthOf(one) {
  if (one.problem?.in_force === false) return { tone: 'bad', word: 'cannot start' };
  if (one.problem !== undefined) return { tone: 'bad', word: 'newest settings refused' };
  if (one.suspended) return { tone: 'warn', word: 'suspended' };
  if (one.held !== undefined) return { tone: 'bad', word: 'held' };
  if (!one.bootstrapped) return { tone: 'bad', word: 'not set up' };
  if (one.consecutive_failures > 0) return { tone: 'bad', word: 'failing' };
  if (one.dead_letters > 0) return { tone: 'warn', word: 'dead letters' };
  if (one.parked_events > 0) return { tone: 'warn', word: 'waiting for tenants' };
  if (one.drift?.differing_rows > 0) return { tone: 'warn', word: 'sums differ' };
  if (one.unpriced.length > 0) return { tone: 'warn', word: 'without a price' };
  return one.ready ? { tone: 'good', word: 'well' } : { tone: 'bad', word: 'not ready' };
}

/** @param {number} now */
export function destinationColumns(now) {
  return [
    {
      name: 'Destination',
      cell: (/** @type {any} */ one) =>
        html`<a href=${link(['destinations', one.name])}>${one.name}</a>`,
    },
    { name: 'Type', cell: (/** @type {any} */ one) => one.type },
    {
      name: 'State',
      cell: (/** @type {any} */ one) =>
        html`<${Badge} tone=${healthOf(one).tone}>${healthOf(one).word}</${Badge}>`,
    },
    {
      name: 'Behind',
      number: true,
      cell: (/** @type {any} */ one) =>
        `${count(one.lag_records)} events, ${duration(one.lag_seconds)}`,
    },
    {
      name: 'Dead letters',
      number: true,
      cell: (/** @type {any} */ one) => count(one.dead_letters),
    },
    { name: 'Last delivery', cell: (/** @type {any} */ one) => ago(one.last_success, now) },
    { name: 'Last error', cell: (/** @type {any} */ one) => one.last_error ?? '–' },
  ];
}

/** @param {{ status: any }} properties */
export function DestinationsPage({ status }) {
  return html`
    <${PageHead} title="Destinations" />
    <${ErrorNotice} state=${status} />
    ${
      status.data &&
      html`
      <${Card}>
        <${Table} caption="Each reads the ledger at its own pace" rows=${status.data.destinations} columns=${destinationColumns(Date.now())}
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
    <${PageHead} title=${name}><a href="#/destinations">All destinations</a></${PageHead}>
    <${ErrorNotice} state=${status} />
    ${status.data && one === undefined && html`<p class="notice">No destination of this name is configured now.</p>`}
    ${one && html`<${Facts} one=${one} />`}
    ${one && html`<${Agreement} one=${one} />`}
    ${one && html`<${DeadLetters} name=${name} known=${one.dead_letters} onChange=${status.reload} />`}
  `;
}

/** @param {{ one: any }} properties */
function Facts({ one }) {
  const now = Date.now();
  const { tone, word } = healthOf(one);
  return html`
    ${one.held !== undefined && html`<${Notice} tone="bad" title="Nothing is sent until this is mended"><p>${one.held}</p></${Notice}>`}
    <div class="grid">
      <${Card} title="Delivery">
        <dl class="facts">
          <dt>State</dt><dd><${Badge} tone=${tone}>${word}</${Badge}></dd>
          <dt>Type</dt><dd>${one.type}</dd>
          <dt>Cursor</dt><dd>${count(one.cursor)} of ${count(one.committed)}${one.cursor_window_end ? `, window until ${time(one.cursor_window_end)}` : ''}</dd>
          <dt>Behind</dt><dd>${count(one.lag_records)} events, ${duration(one.lag_seconds)}</dd>
          <dt>Delivered</dt><dd>${count(one.delivered_events)} since the operator started; ${count(one.skipped_events)} not wanted here</dd>
          <dt>Last delivery</dt><dd>${ago(one.last_success, now)}</dd>
          <dt>Last error</dt><dd>${one.last_error ? `${time(one.last_error_at)}: ${one.last_error}` : 'none'}</dd>
        </dl>
      </${Card}>
      <${Card} title="Tenants that wait">
        <${Table} caption="Their events are kept in order and sent when the tenant can be set up" rows=${one.parked_tenants} empty="None."
          columns=${[
            {
              name: 'Tenant',
              cell: (/** @type {any} */ parked) =>
                html`<a href=${link(['tenants', parked.tenant])}>${parked.tenant}</a>`,
            },
            {
              name: 'Events',
              number: true,
              cell: (/** @type {any} */ parked) => count(parked.events),
            },
            { name: 'Since', cell: (/** @type {any} */ parked) => time(parked.since) },
            { name: 'Reason', cell: (/** @type {any} */ parked) => parked.reason },
          ]} />
      </${Card}>
    </div>
  `;
}

/** What the billing system itself shows: prices that are missing, sums that differ. @param {{ one: any }} properties */
function Agreement({ one }) {
  const { unpriced, drift, rate_limit: limit } = one;
  return html`
    <${Card} title="Agreement with the other side">
      ${
        limit &&
        html`<p class="notice warn">
          Its rate limit lets through fewer events than are metered: ${quantity(limit.events_per_second)} of
          ${quantity(limit.needed_events_per_second)} a second.
        </p>`
      }
      ${
        drift === undefined
          ? html`<p class="empty">Yesterday has not been compared yet, or cannot be at this destination.</p>`
          : html`
              <p>
                ${drift.day}: ${count(drift.compared_rows)} sums of tenant and metric compared
                ${ago(drift.compared_at, Date.now())}, ${count(drift.differing_rows)} differ,
                ${count(drift.unanswered_rows)} were not answered.
              </p>
              <${Table} caption="Sums that differ" rows=${drift.examples} empty="None differ."
                columns=${[
                  {
                    name: 'Tenant',
                    cell: (/** @type {any} */ row) =>
                      html`<a href=${link(['tenants', row.tenant])}>${row.tenant}</a>`,
                  },
                  { name: 'Metric', cell: (/** @type {any} */ row) => row.metric },
                  {
                    name: 'It has more by',
                    number: true,
                    cell: (/** @type {any} */ row) => String(row.difference),
                  },
                ]} />
            `
      }
      <${Table} caption="Usage that came and that nobody has priced there" rows=${unpriced} empty="No usage without a price is known."
        columns=${[
          { name: 'Metric', cell: (/** @type {any} */ row) => row.metric },
          { name: 'SKU', cell: (/** @type {any} */ row) => row.sku ?? 'any' },
          { name: 'Plan or rate card', cell: (/** @type {any} */ row) => row.plan },
        ]} />
    </${Card}>
  `;
}

/** @param {{ name: string, known: number, onChange: () => void }} properties */
function DeadLetters({ name, known, onChange }) {
  const base = `/api/v1/destinations/${encodeURIComponent(name)}/dead-letters`;
  const page = useApi(url(base, { limit: PAGE }), REFRESH_MS);
  const [chosen, setChosen] = useState(/** @type {ReadonlySet<string>} */ (new Set()));
  const letters = page.data?.dead_letters ?? [];
  const present = letters.filter((/** @type {any} */ letter) => chosen.has(letter.event.id));
  const ids = present.map((/** @type {any} */ letter) => letter.event.id);
  const done = () => {
    setChosen(new Set());
    page.reload();
    onChange();
  };
  const toggle = (/** @type {string} */ id) => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    setChosen(next);
  };
  const replay = async (/** @type {unknown} */ body) => {
    const outcome = await change(`${base}/replay`, body);
    return `${outcome.replayed} delivered, ${outcome.still_rejected} refused again, ${outcome.pending} under way.`;
  };
  const discard = async () => `${(await change(`${base}/discard`, { ids })).discarded} discarded.`;
  return html`
    <${Card} title="Dead letters">
      <p class="muted">
        Events that ${name} will never accept as they are. They are kept until they are sent once more, after
        the cause is mended, or discarded.
      </p>
      <${ErrorNotice} state=${page} />
      ${
        letters.length > 0 &&
        html`
        <div class="controls">
          <${ConfirmButton} label="Send all again" question=${`Send all ${count(known)} dead letters again?`} onDone=${done}
            explanation="Each keeps its id, so what the destination already has is not billed twice." action=${() => replay({ all: true })} />
          <${ConfirmButton} label=${`Send ${ids.length} again`} disabled=${ids.length === 0} question="Send the chosen events again?" onDone=${done}
            explanation="Each keeps its id, so what the destination already has is not billed twice." action=${() => replay({ ids })} />
          <${ConfirmButton} label=${`Discard ${ids.length}`} tone="danger" disabled=${ids.length === 0} question="Discard the chosen events?" onDone=${done}
            explanation="They will never be billed at this destination. The ledger keeps them until RETENTION." action=${discard} />
        </div>
      `
      }
      ${
        page.data &&
        html`
        <${Table} caption=${`The first ${PAGE} of ${count(known)}`} rows=${letters} empty="None: everything was accepted."
          columns=${[
            {
              name: 'Event',
              cell: (/** @type {any} */ letter) => html`
                <label><input type="checkbox" checked=${chosen.has(letter.event.id)} onChange=${() => toggle(letter.event.id)} /> <span>${letter.event.id}</span></label>
              `,
            },
            {
              name: 'Tenant',
              cell: (/** @type {any} */ letter) =>
                html`<a href=${link(['tenants', letter.event.tenant])}>${letter.event.tenant}</a>`,
            },
            { name: 'Metric', cell: (/** @type {any} */ letter) => letter.event.metric },
            {
              name: 'Quantity',
              number: true,
              cell: (/** @type {any} */ letter) =>
                `${quantity(letter.event.quantity)} ${letter.event.unit}`,
            },
            { name: 'Since', cell: (/** @type {any} */ letter) => time(letter.at) },
            { name: 'Reason', cell: (/** @type {any} */ letter) => letter.reason },
            {
              name: 'Why',
              cell: (/** @type {any} */ letter) =>
                html`<a href=${link(['events', letter.event.id])} aria-label=${`Explain ${letter.event.id}`}>Explain</a>`,
            },
          ]} />
      `
      }
    </${Card}>
  `;
}
