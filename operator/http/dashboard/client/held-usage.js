import { html, useContext, useState } from './preact.js';
import { link } from './location.js';
import { change, useApi } from './api.js';
import { ConfirmButton } from './buttons.js';
import { Card, Choice, ErrorNotice, Notice } from './components.js';
import { count, counted, time } from './format.js';
import { HubContext } from './hub.js';
import { useNames } from './names.js';
import { Table, text } from './table.js';

const PATH = '/api/v1/held-tenants';
const REFRESH_MS = 30_000;
const NAMES_SHOWN = 5;

/** The held usage; nothing on a hub, which accepts no pushed usage. */
function useHeld() {
  const isHub = useContext(HubContext);
  return useApi(isHub === false ? PATH : undefined, REFRESH_MS);
}

/**
 * A table of usage that was pushed for an unknown tenant, mostly after a typing error. It is hidden
 * when there is none.
 */
export function HeldTenants() {
  const held = useHeld();
  const rows = held.data?.held_tenants ?? [];
  if (held.error === undefined && rows.length === 0) return null;
  return html`
    <${Card} title="Held usage: pushed for unknown tenants">
      <${ErrorNotice} state=${held} />
      <p class="muted">It is kept and billed to nobody until you decide, or until the tenant is discovered.</p>
      ${
        held.data &&
        html`<${Table} caption="Held usage" rows=${rows} empty="None."
        columns=${[
          text('Pushed for', (one) => one.tenant),
          { name: 'Events', number: true, cell: (/** @type {any} */ one) => count(one.events) },
          text('Since', (one) => time(one.since)),
          text('Decide', (one) => html`<${Decision} one=${one} onDone=${held.reload} />`),
        ]} />`
      }
    </${Card}>
  `;
}

/** A notice that links to held usage, when there is any. */
export function HeldNotice() {
  const held = useHeld();
  const names = (held.data?.held_tenants ?? []).map((/** @type {any} */ one) => one.tenant);
  if (names.length === 0) return null;
  return html`
    <${Notice} title=${`Usage of ${counted(names.length, 'unknown tenant')} is held`}>
      <p><a href=${link(['tenants'])}>Release or rename it</a>: ${names.slice(0, NAMES_SHOWN).join(', ')}</p>
    </${Notice}>
  `;
}

/** @param {{ one: any, onDone: () => void }} properties */
function Decision({ one, onDone }) {
  const names = useNames();
  const [to, setTo] = useState('');
  const base = `${PATH}/${encodeURIComponent(one.tenant)}`;
  const events = counted(one.events, 'event');
  const decide = async (/** @type {string} */ word, /** @type {unknown} */ body) => {
    const { events: moved, conflicts = [] } = await change(`${base}/${word}`, body);
    const stillHeld =
      conflicts.length === 0
        ? ''
        : ` ${counted(conflicts.length, 'event')} still held: another quantity is recorded under the same id.`;
    return `${counted(moved, 'event')} done.${stillHeld}`;
  };
  const ids = names.tenants.map(({ id, display_name: name }) => [id, name]);
  return html`
    <div class="controls">
      <${ConfirmButton} label="Release" question=${`Bill ${events} to ${one.tenant}?`} onDone=${onDone} action=${() => decide('release', undefined)}
        explanation="This and all later usage of this name is delivered: billing systems may create a customer for it." />
      <${Choice} label="Correct tenant" value=${to} options=${[['', 'Choose a tenant'], ...ids]} onChoose=${setTo} />
      <${ConfirmButton} label="Rename" disabled=${to === ''} question=${`Give ${events} of ${one.tenant} to ${names.tenant(to)}?`} onDone=${onDone} action=${() => decide('rename', { to })}
        explanation="The events are delivered under the chosen tenant." />
      <${ConfirmButton} label="Discard" tone="danger" question=${`Discard ${events} of ${one.tenant}?`} onDone=${onDone} action=${() => decide('discard', undefined)}
        explanation="They will never be billed; their ids stay used." />
    </div>
  `;
}
