import { html } from '../preact.js';
import { useApi } from '../api.js';
import { Card, ErrorNotice, PageHead } from '../components.js';
import { time } from '../format.js';
import { HeldTenants } from '../held-tenants.js';
import { CopyButton } from '../buttons.js';
import { TenantLink, useNames } from '../names.js';
import { Table } from '../table.js';
import { TenantUsage } from '../tenant-usage.js';
import { RangePicker, rangeOf, rangeQuery } from '../time-range.js';

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
            {
              name: 'Tenant',
              value: (/** @type {any} */ one) => names.tenant(one.id),
              cell: (/** @type {any} */ one) =>
                html`<${TenantLink} id=${one.id} query=${rangeQuery(range)} />`,
            },
            {
              name: 'Billed as',
              value: (/** @type {any} */ one) => one.id,
              cell: (/** @type {any} */ one) =>
                html`<${CopyButton} text=${one.id} what="tenant id" />`,
            },
            {
              name: 'Tenant clusters',
              number: true,
              value: (/** @type {any} */ one) => one.clusters.length,
              cell: (/** @type {any} */ one) => one.clusters.length,
            },
            field('Plan', (one) => one.plan ?? 'default'),
            field('Class', (one) => one.class),
            field('Project', (one) => one.project),
            {
              name: 'Since',
              value: (/** @type {any} */ one) => one.created_at,
              cell: (/** @type {any} */ one) => time(one.created_at),
            },
          ]} />
      `
      }
    </${Card}>
  `;
}

/** A column of texts as they are. @param {string} name @param {(one: any) => string | undefined} of */
function field(name, of) {
  return { name, value: of, cell: (/** @type {any} */ one) => of(one) ?? '–' };
}
