import { html } from '../preact.js';
import { useApi } from '../api.js';
import { Card, ErrorNotice, PageHead } from '../components.js';
import { time } from '../format.js';
import { HeldTenants } from '../held-usage.js';
import { CopyButton } from '../buttons.js';
import { TenantLink, useNames } from '../names.js';
import { figure, Table, text } from '../table.js';
import { TenantUsage } from '../tenant-usage.js';
import { RangePicker, rangeOf, rangeQuery } from '../time-range.js';
import { State } from './enforcement.js';

const REFRESH_MS = 60_000;

/** @param {{ query: URLSearchParams }} properties */
export function TenantsPage({ query }) {
  const names = useNames();
  const range = rangeOf(query, Date.now());
  const tenants = useApi('/api/v1/tenants', REFRESH_MS);
  return html`
    <${PageHead} title="Tenants"><${RangePicker} range=${range} /></${PageHead}>
    <${HeldTenants} />
    <${Card} title="What they used"><${TenantUsage} range=${range} /></${Card}>
    <${Card} title="Who is billed">
      <${ErrorNotice} state=${tenants} />
      ${
        tenants.data &&
        html`
        <${Table} caption="Tenants known now" rows=${tenants.data.tenants}
          empty="No tenant cluster was found. The log says '[discovery] found 0' and why: wrong labels, a missing permission, or WATCH_NAMESPACES."
          columns=${[
            text(
              'Tenant',
              (one) => html`<${TenantLink} id=${one.id} query=${rangeQuery(range)} />`,
              (one) => names.tenant(one.id),
            ),
            text(
              'Billed as',
              (one) => html`<${CopyButton} text=${one.id} what="tenant id" />`,
              (one) => one.id,
            ),
            figure(
              'Tenant clusters',
              (one) => one.clusters.length,
              (one) => one.clusters.length,
            ),
            text(
              'Billing state',
              (one) => html`<${State} state=${one.billing_state} />`,
              (one) => one.billing_state,
            ),
            field('Plan', (one) => one.plan ?? 'default'),
            field('Class', (one) => one.class),
            field('Project', (one) => one.project),
            text(
              'Since',
              (one) => time(one.created_at),
              (one) => one.created_at,
            ),
          ]} />
      `
      }
    </${Card}>
  `;
}

/** A column of plain texts. @param {string} name @param {(one: any) => string | undefined} of */
function field(name, of) {
  return { name, value: of, cell: (/** @type {any} */ one) => of(one) ?? '–' };
}
