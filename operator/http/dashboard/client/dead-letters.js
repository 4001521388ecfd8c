import { html, useState } from './preact.js';
import { change, useApi, url } from './api.js';
import { ConfirmButton } from './buttons.js';
import { Card, ErrorNotice } from './components.js';
import { count, counted, quantity, time, unitText } from './format.js';
import { link } from './location.js';
import { TenantLink, useNames } from './names.js';
import { figure, Table, text } from './table.js';

const REFRESH_MS = 15_000;
const PAGE = 1000;
/** How many events of one reason are shown before the reader chooses to see all. */
const EVENTS_SHOWN = 20;
const SAME_ID = 'Each keeps its id, so a destination that remembers the id does not bill it twice.';

/**
 * Events that a destination has refused, by the reason.
 * @param {{ one: any, onChange: () => void }} properties `one` is the destination
 */
export function DeadLetters({ one, onChange }) {
  const { name, suspended } = one;
  const base = `/api/v1/destinations/${encodeURIComponent(name)}/dead-letters`;
  const page = useApi(url(base, { limit: PAGE }), REFRESH_MS);
  const [chosen, setChosen] = useState(/** @type {ReadonlySet<string>} */ (new Set()));
  const letters = page.data?.dead_letters ?? [];
  // The status may be of a moment before.
  const known = Math.max(one.dead_letters, letters.length);
  const ids = letters
    .map((/** @type {any} */ letter) => letter.event.id)
    .filter((/** @type {string} */ id) => chosen.has(id));
  const done = () => {
    setChosen(new Set());
    page.reload();
    onChange();
  };
  const choose = (/** @type {string[]} */ some, /** @type {boolean} */ wanted) => {
    const others = [...chosen].filter((id) => !some.includes(id));
    setChosen(new Set(wanted ? [...others, ...some] : others));
  };
  const replay = async (/** @type {object} */ body) => {
    const outcome = await change(`${base}/replay`, body);
    return `${outcome.replayed} delivered, ${outcome.still_rejected} refused again, ${outcome.pending} in progress.`;
  };
  const insist = (/** @type {object} */ body) => ({
    label: 'Send anyway',
    action: () => replay({ ...body, force: true }),
  });
  const discard = async () => `${(await change(`${base}/discard`, { ids })).discarded} discarded.`;
  const some = ids.length === 0 ? 'the chosen' : count(ids.length);
  const reasons = [...Map.groupBy(letters, (/** @type {any} */ letter) => formOf(letter.reason))];
  return html`
    <${Card} title="Dead letters">
      <p class="muted">
        Events that ${name} refused for good. Fix the cause and send them again, or discard them. They are kept until
        then.
      </p>
      <${ErrorNotice} state=${page} />
      ${
        letters.length > 0 &&
        html`
        <div class="controls">
          <${ConfirmButton} label="Send all again" disabled=${suspended} question=${`Send ${counted(known, 'dead letter')} again?`} onDone=${done}
            explanation=${SAME_ID} action=${() => replay({ all: true })} insist=${insist({ all: true })} />
          <${ConfirmButton} label=${ids.length === 0 ? 'Send the chosen again' : `Send ${some} again`} disabled=${suspended || ids.length === 0} question="Send the chosen events again?" onDone=${done}
            explanation=${SAME_ID} action=${() => replay({ ids })} insist=${insist({ ids })} />
          <${ConfirmButton} label=${`Discard ${some}`} tone="danger" disabled=${ids.length === 0} question="Discard the chosen events?" onDone=${done}
            explanation="They will never be billed at this destination. The ledger keeps them until RETENTION." action=${discard} />
        </div>
        ${suspended && html`<p>${name} is suspended: nothing can be sent again until it resumes.</p>`}
        ${letters.length < known && html`<p>The first ${count(letters.length)} of ${count(known)}:</p>`}
      `
      }
      ${page.data && letters.length === 0 && html`<p class="empty">${noneText(one)}</p>`}
      ${reasons.map(([form, group]) => html`<${Reason} key=${form} letters=${group} chosen=${chosen} choose=${choose} />`)}
    </${Card}>
  `;
}

/** The warning that an event may be billed already. @param {any} letter */
function unansweredText({ unanswered_since: since }) {
  return `An attempt of ${time(since)} had no answer: the event may be billed already.`;
}

/** Why there are no dead letters. @param {any} destination */
function noneText({ delivered_events: delivered, lag_records: behind }) {
  if (delivered === 0) return 'None: nothing was sent yet since the operator started.';
  return behind > 0
    ? 'None: everything sent was accepted. More is queued.'
    : 'None: everything was accepted.';
}

/**
 * The reason without its quoted names and numbers; events with equal forms are shown together.
 * @param {string} reason
 */
function formOf(reason) {
  return reason.replaceAll(/"[^"]*"/g, '""').replaceAll(/\d+/g, '0');
}

/**
 * @param {{ letters: any[], chosen: ReadonlySet<string>, choose: (ids: string[], wanted: boolean)
 *   => void }} properties
 */
function Reason({ letters, chosen, choose }) {
  const names = useNames();
  const [all, setAll] = useState(false);
  const ids = letters.map(({ event }) => event.id);
  const [first] = letters;
  const tenants = [...Map.groupBy(letters, ({ event }) => event.tenant)];
  const shown = all ? letters : letters.slice(0, EVENTS_SHOWN);
  const unanswered = letters.filter((letter) => letter.unanswered_since !== undefined).length;
  const check = (/** @type {string[]} */ some, /** @type {any} */ label) => html`
    <label class="check"><input type="checkbox" checked=${some.every((id) => chosen.has(id))} onChange=${(/** @type {any} */ event) => choose(some, event.currentTarget.checked)} /> <span>${label}</span></label>
  `;
  return html`
    <section class="reason">
      <h3>${first.reason}</h3>
      <p>${counted(letters.length, 'event')} of ${tenants.map(([id, of], index) => html`${index > 0 && ', '}<${TenantLink} id=${id} /> (${count(of.length)})`)}</p>
      ${unanswered > 0 && html`<p>${counted(unanswered, 'event')} may be billed already: an earlier attempt had no answer.</p>`}
      ${check(ids, letters.length === 1 ? 'Choose it' : `Choose all ${count(letters.length)}`)}
      <details>
        <summary>${letters.length === 1 ? 'The event' : 'The events'}</summary>
        <${Table} caption="Refused" rows=${shown} empty="None."
          columns=${[
            text('Event', ({ event }) => check([event.id], names.metric(event.metric))),
            text('Tenant', ({ event }) => html`<${TenantLink} id=${event.tenant} />`),
            text('SKU', ({ event }) => event.sku ?? '–'),
            figure(
              'Quantity',
              ({ event }) => `${quantity(event.quantity)} ${unitText(event.unit)}`,
            ),
            text(
              'Reason',
              (letter) =>
                html`${letter.reason}${letter.unanswered_since && html`<br /><strong>${unansweredText(letter)}</strong>`}`,
            ),
            text('Since', (letter) => time(letter.at)),
            text('Why', (letter) => html`<${Why} letter=${letter} />`),
          ]} />
        ${shown.length < letters.length && html`<button onClick=${() => setAll(true)}>Show all ${count(letters.length)}</button>`}
      </details>
    </section>
  `;
}

/** A link to the explanation of an event. @param {{ letter: any }} properties */
function Why({ letter: { event } }) {
  const names = useNames();
  const about = `${names.metric(event.metric)} of ${names.tenant(event.tenant)}`;
  return html`<a href=${link(['events', event.id])} aria-label=${`Explain ${about}, ${time(event.window_start)}`} class="whole">Explain</a>`;
}
