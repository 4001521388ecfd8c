import { html, useState } from '../preact.js';
import { change, useApi } from '../api.js';
import { ConfirmButton } from '../buttons.js';
import { Badge, Card, ErrorNotice, PageHead } from '../components.js';
import { time } from '../format.js';
import { TenantLink, useNames } from '../names.js';
import { Table, text } from '../table.js';

const REFRESH_MS = 15_000;

/** @type {Record<string, 'good' | 'warn' | 'bad'>} */
const TONES = { active: 'good', warning: 'warn', delinquent: 'bad', suspended: 'bad' };

/** @type {Record<string, string>} */
const MODES = {
  observe: 'States are recorded and shown; nothing in the cluster is changed.',
  annotate: 'States are also marked on namespaces and control planes; nothing is blocked.',
  enforce:
    'New pods of suspended tenant clusters are refused where the suspension policy is installed. Running pods are never touched.',
};

/** Billing states of tenants, and a form to set one by hand. */
export function EnforcementPage() {
  const states = useApi('/api/v1/billing-states', REFRESH_MS);
  const { data } = states;
  return html`
    <${PageHead} title="Enforcement" />
    <${ErrorNotice} state=${states} />
    ${
      data &&
      html`
      <${Card} title=${`Mode: ${data.mode}`}><p>${MODES[data.mode]}</p></${Card}>
      <${Card} title="Billing states">
        <${Table} caption="The most severe source counts, unless a state was set by hand" rows=${data.states}
          empty="Nothing is recorded: every tenant is active."
          columns=${[
            text('Tenant', (one) => html`<${TenantLink} id=${one.tenant} />`),
            text(
              'State',
              (one) => html`<${State} state=${one.state} />${one.manual ? ' by hand' : ''}`,
            ),
            text('Since', (one) => time(one.since)),
            text('Reason', (one) => one.reason ?? '–'),
            { name: 'Sources', cell: sources },
            text('By hand', (one) =>
              one.manual ? html`<${Clear} tenant=${one.tenant} onDone=${states.reload} />` : '–',
            ),
          ]} />
      </${Card}>
      <${SetByHand} onDone=${states.reload} />
    `
    }
  `;
}

/** A billing state. @param {{ state: string }} properties */
export function State({ state }) {
  return html`<${Badge} tone=${TONES[state] ?? 'plain'}>${state}</${Badge}>`;
}

/** @param {any} one */
function sources({ sources: all }) {
  if (all.length === 0) return '–';
  return all.map(
    (/** @type {any} */ one) =>
      html`<div>${one.source}: ${one.state} (${one.event_type}, ${time(one.at)})</div>`,
  );
}

/** @param {{ tenant: string, onDone: () => void }} properties */
function Clear({ tenant, onDone }) {
  const name = useNames().tenant(tenant);
  const clear = async () => {
    const now = await change(stateAddress(tenant), undefined, 'DELETE');
    return `${name} is ${now.state}.`;
  };
  return html`
    <${ConfirmButton} label="Clear" question=${`Clear the state of ${name}?`} onDone=${onDone} action=${clear}
      explanation="The states from billing systems apply again, also those received meanwhile." />
  `;
}

/** @param {{ onDone: () => void }} properties */
function SetByHand({ onDone }) {
  const names = useNames();
  const [tenant, setTenant] = useState('');
  const [state, setState] = useState('active');
  const [reason, setReason] = useState('');
  const set = async () => {
    const body = { state, ...(reason === '' ? {} : { reason }) };
    const now = await change(stateAddress(tenant), body, 'PUT');
    return `${names.tenant(tenant)} is ${now.state}.`;
  };
  const field = (/** @type {(value: string) => void} */ put) => (/** @type {any} */ event) =>
    put(event.currentTarget.value);
  return html`
    <${Card} title="Set a state by hand">
      <p class="muted">It overrides the states from billing systems until it is cleared.</p>
      <div class="controls">
        <label class="field">Tenant
          <select value=${tenant} onChange=${field(setTenant)}>
            <option value="">Choose a tenant</option>
            ${names.tenants.map(({ id, display_name: name }) => html`<option value=${id} selected=${id === tenant}>${name}</option>`)}
          </select>
        </label>
        <label class="field">State
          <select value=${state} onChange=${field(setState)}>
            ${Object.keys(TONES).map((one) => html`<option value=${one} selected=${one === state}>${one}</option>`)}
          </select>
        </label>
        <label class="field">Reason
          <input maxlength="256" value=${reason} onInput=${field(setReason)} />
        </label>
        <${ConfirmButton} label="Set the state" tone=${state === 'suspended' ? 'danger' : 'primary'} disabled=${tenant === ''}
          question=${`Set ${names.tenant(tenant)} to ${state}?`} onDone=${onDone} action=${set}
          explanation=${state === 'suspended' ? 'In mode enforce, new pods of its tenant clusters are refused.' : 'It applies until it is cleared.'} />
      </div>
    </${Card}>
  `;
}

/** @param {string} tenant */
function stateAddress(tenant) {
  return `/api/v1/billing-states/${encodeURIComponent(tenant)}`;
}
