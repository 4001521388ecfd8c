import { html } from '../preact.js';
import { useApi } from '../api.js';
import { Badge, Card, PageHead, Table, Trouble } from '../components.js';
import { link } from '../location.js';

const REFRESH_MS = 15_000;

/** @type {Record<string, 'good' | 'warn' | 'bad'>} */
const TONES = { active: 'good', warning: 'warn', delinquent: 'bad', suspended: 'bad' };

/** What billing systems say of tenants, and what follows from it. @param {{ status: any }} properties */
export function EnforcementPage({ status }) {
  const states = useApi('/api/v1/billing-states', REFRESH_MS);
  return html`
    <${PageHead} title="Enforcement" />
    <${Trouble} state=${states} />
    <${Card} title="Billing states">
      <p class="muted">Mode: ${status.data?.enforcement_mode ?? '…'}.</p>
      ${
        states.data &&
        html`
        <${Table} caption="The most severe state of all sources holds" rows=${states.data.states} empty="Every tenant is active."
          columns=${[
            {
              name: 'Tenant',
              cell: (/** @type {any} */ one) =>
                html`<a href=${link(['tenants', one.tenant])}>${one.tenant}</a>`,
            },
            {
              name: 'State',
              cell: (/** @type {any} */ one) =>
                html`<${Badge} tone=${TONES[one.state] ?? 'plain'}>${one.state}</${Badge}>`,
            },
          ]} />
      `
      }
    </${Card}>
  `;
}
