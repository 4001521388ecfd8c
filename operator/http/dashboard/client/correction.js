import { html, useRef, useState } from './preact.js';
import { change } from './api.js';
import { documentPlace } from './documents.js';
import { Badge, Card } from './components.js';
import { counted, exact, time, unitText } from './format.js';
import { link } from './location.js';
import { figure, Table, text } from './table.js';

const LONGEST_TEXT = 256;
/** As the API takes it: at least 0, nine decimals at the most. */
const QUANTITY = /^\d{1,16}(\.\d{1,9})?$/;

/** The API's address of the corrections of an event. @param {string} id */
export function correctionsAddress(id) {
  return `/api/v1/events/${encodeURIComponent(id)}/corrections`;
}

/**
 * The current quantity of an event, its corrections with author and reason, and a form to correct
 * it.
 * @param {{ state: any, onDone: () => void }} properties `state` is the answer of GET …/corrections
 */
export function Corrections({ state, onDone }) {
  const { event, corrections, counts_as: now, refused } = state;
  const unit = unitText(event.unit);
  if (event.source === 'correction') return html`<${OfAnother} event=${event} />`;
  return html`
    <${Card} title="Corrections">
      ${
        corrections.length === 0
          ? html`<p>None: it counts as it was recorded, ${exact(event.quantity)} ${unit}.</p>`
          : html`<p>It was recorded as ${exact(event.quantity)} ${unit} and counts as <strong>${exact(now)} ${unit}</strong> now.</p>
              <${Table} caption=${`Corrected ${counted(corrections.length, 'time')}`} rows=${corrections} empty="None."
                columns=${[
                  text(
                    'When',
                    (one) => html`<a href=${link(['events', one.id])}>${time(one.recorded_at)}</a>`,
                  ),
                  figure(`Difference, ${unit}`, (one) => exact(one.quantity, true)),
                  text('Why', (one) => one.properties?.reason ?? '–'),
                  text('Who', (one) => one.properties?.author ?? '–'),
                ]} />`
      }
      ${refused === undefined ? html`<${CorrectButton} state=${state} onDone=${onDone} />` : html`<p><button disabled aria-describedby="not-correctable">Correct this event…</button></p><p id="not-correctable" class="muted">It cannot be corrected here: ${refused}.</p>`}
    </${Card}>
  `;
}

/** An event that is a correction itself. @param {{ event: any }} properties */
function OfAnother({ event }) {
  const { corrects, reason, author } = event.properties ?? {};
  const what = html`<a href=${link(['events', String(corrects)])}>the event</a>`;
  return html`
    <${Card} title="A correction of another event">
      <p>${author} corrected ${what} by ${exact(event.quantity, true)} ${unitText(event.unit)}: ${reason}</p>
      <p class="muted">To change it, correct that event once more.</p>
    </${Card}>
  `;
}

/** @param {{ state: any, onDone: () => void }} properties */
function CorrectButton({ state, onDone }) {
  const { event, counts_as: now } = state;
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const [kind, setKind] = useState('nothing');
  const [amount, setAmount] = useState('');
  const [reason, setReason] = useState('');
  const [author, setAuthor] = useState('');
  const [tried, setTried] = useState(false);
  const [failed, setFailed] = useState('');
  const [busy, setBusy] = useState(false);
  const [result, setResult] = useState('');
  const unit = unitText(event.unit);
  const quantity = kind === 'nothing' ? '0' : amount.trim();
  const wrong = problemsOf({ quantity, now, reason, author });
  const submit = async (/** @type {Event} */ submitted) => {
    submitted.preventDefault();
    setTried(true);
    setFailed('');
    const [first] = Object.keys(wrong);
    if (first !== undefined) {
      /** @type {HTMLInputElement | null | undefined} */
      const field = dialog.current?.querySelector(`[name=${first}]`);
      field?.focus();
      return;
    }
    setBusy(true);
    try {
      // The quantity as it was typed: a number would lose digits.
      const body = `{"quantity":${quantity},${JSON.stringify({ reason: reason.trim(), author: author.trim() }).slice(1)}`;
      const done = await change(correctionsAddress(event.id), body);
      setResult(
        `Recorded: it counted as ${exact(done.before)} ${unit} and counts as ${exact(done.after)} now.`,
      );
      setTried(false);
      dialog.current?.close();
      onDone();
    } catch (error) {
      setFailed(error instanceof Error ? error.message : String(error));
    }
    setBusy(false);
  };
  const field = (/** @type {(value: string) => void} */ put) => (/** @type {any} */ input) =>
    put(input.currentTarget.value);
  const problem = (/** @type {string} */ name) => (tried ? wrong[name] : undefined);
  return html`
    <p><button onClick=${() => dialog.current?.showModal()}>Correct this event…</button> <span role="status">${result}</span></p>
    <dialog ref=${dialog} aria-labelledby="correct-title" class="form">
      <form novalidate onSubmit=${submit}>
        <h2 id="correct-title">Correct this event</h2>
        <p>It counts as <strong>${exact(now)} ${unit}</strong> now. The ledger is never rewritten: the difference is recorded as another event, with author and reason.</p>
        <fieldset>
          <legend>New quantity</legend>
          <label class="check"><input type="radio" name="kind" value="nothing" checked=${kind === 'nothing'} onChange=${field(setKind)} /> Zero: cancel the event</label>
          <label class="check"><input type="radio" name="kind" value="amount" checked=${kind === 'amount'} onChange=${field(setKind)} /> Another quantity</label>
          ${kind === 'amount' && html`<${Field} name="quantity" label=${`Quantity, ${unit}`} value=${amount} put=${setAmount} problem=${problem('quantity')} inputmode="decimal" />`}
          ${kind === 'nothing' && problem('quantity') && html`<p class="wrong" role="alert">${problem('quantity')}</p>`}
        </fieldset>
        <${Field} name="reason" label="Reason" value=${reason} put=${setReason} problem=${problem('reason')} />
        <${Field} name="author" label="Your name" value=${author} put=${setAuthor} problem=${problem('author')} />
        <${Consequences} destinations=${state.destinations} quantity=${quantity} now=${now} unit=${unit} />
        ${failed && html`<p class="wrong" role="alert">Nothing was recorded: ${failed}</p>`}
        <div class="buttons">
          <button type="button" onClick=${() => dialog.current?.close()}>Cancel</button>
          <button class="danger" disabled=${busy}>Record the correction</button>
        </div>
      </form>
    </dialog>
  `;
}

/**
 * @param {{ name: string, label: string, value: string, put: (value: string) => void, problem:
 *   string | undefined, inputmode?: string }} properties
 */
function Field({ name, label, value, put, problem, inputmode }) {
  return html`
    <label class="field">
      ${label}
      <input name=${name} value=${value} maxlength=${LONGEST_TEXT} inputmode=${inputmode} autocomplete="off" required
        aria-invalid=${problem === undefined ? undefined : 'true'} aria-describedby=${problem === undefined ? undefined : `wrong-${name}`}
        onInput=${(/** @type {any} */ event) => put(event.currentTarget.value)} />
    </label>
    ${problem !== undefined && html`<p class="wrong" id=${`wrong-${name}`} role="alert">${problem}</p>`}
  `;
}

/**
 * The problems of the form, by field.
 * @param {{ quantity: string, now: number, reason: string, author: string }} wanted
 * @returns {Record<string, string>}
 */
function problemsOf({ quantity, now, reason, author }) {
  return {
    ...(!QUANTITY.test(quantity)
      ? { quantity: 'A number of at least 0 with at most nine decimals, such as 12.5.' }
      : Number(quantity) === now
        ? { quantity: 'It counts as that already: there is nothing to correct.' }
        : {}),
    ...(reason.trim() === '' ? { reason: 'Give a reason: readers of the bill will ask.' } : {}),
    ...(author.trim() === '' ? { author: 'Give your name or address.' } : {}),
  };
}

/**
 * What will happen at each destination.
 * @param {{ destinations: any[], quantity: string, now: number, unit: string }} properties
 */
function Consequences({ destinations, quantity, now, unit }) {
  const isKnown = QUANTITY.test(quantity) && Number(quantity) !== now;
  const difference = isKnown ? Number(quantity) - now : undefined;
  const what = difference === undefined ? 'the difference' : `${exact(difference, true)} ${unit}`;
  return html`
    <h3>What happens then</h3>
    ${destinations.length === 0 && html`<p>No destination is configured: only the sums here change.</p>`}
    <ul class="consequences" aria-live="polite">
      ${destinations.map((one) => {
        const { tone, text } = consequenceAt(one, what, (difference ?? -1) < 0);
        return html`<li><strong>${one.name}</strong> <${Badge} tone=${tone}>${tone === 'good' ? 'receives it' : tone === 'plain' ? 'not affected' : 'needs action'}</${Badge}><br />${text}</li>`;
      })}
    </ul>
    <p class="muted">What each billing system does with a quantity below zero: <a href=${documentPlace('events.md', 'corrections')}>Corrections</a></p>
  `;
}

/**
 * @param {any} destination @param {string} what @param {boolean} isLess
 * @returns {{ tone: 'good' | 'warn' | 'plain', text: string }}
 */
function consequenceAt({ state, takes_negative: takesNegative, suspended }, what, isLess) {
  const later = suspended ? ' Delivery is suspended: this happens when it resumes.' : '';
  if (state === 'not-wanted')
    return { tone: 'plain', text: 'Does not take this metric: nothing changes there.' };
  const dead = (/** @type {string} */ why) => {
    return {
      tone: /** @type {const} */ ('warn'),
      text: `${why} The correction becomes a dead letter there.`,
    };
  };
  if (state === 'dead-letter')
    return dead(
      'Refused the event, so there is nothing to correct: replay or discard the event first.',
    );
  if (state === 'never-sent')
    return dead(
      'Was never sent the event, so there is nothing to correct: discard the dead letter.',
    );
  if (state === 'cannot-start')
    return {
      tone: 'warn',
      text: 'Cannot start with its configuration. Once it can, it receives the event, if it has not yet, and the difference.',
    };
  if (state === 'too-old')
    return dead('The event is older than it accepts: enter it there by hand.');
  if (isLess && !takesNegative)
    return dead('Accepts no negative quantity: enter a credit there by hand.');
  return state === 'waiting'
    ? {
        tone: 'good',
        text: `Has not received the event yet: it receives the event, then ${what}.${later}`,
      }
    : { tone: 'good', text: `Has the event: it receives ${what}, once.${later}` };
}
