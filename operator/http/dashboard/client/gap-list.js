import { html } from './preact.js';
import { counted, duration, time } from './format.js';
import { useNames } from './names.js';

/** @type {ReadonlyMap<string, string>} */
const CAUSES = new Map([
  ['metrics', 'CPU and memory usage could not be read'],
  ['collector', 'Nobody was metering'],
  ['tenant-api', 'The API of a tenant cluster could not be read'],
  ['prometheus', 'Prometheus did not answer'],
  ['resourceslices', 'A node publishes too many resource slices'],
  ['own-nodes', 'A tenant cluster has more nodes of its own than are metered'],
  ['quarantine', 'Something in a tenant cluster could not be measured'],
  ['discovery', 'Tenant clusters could not be looked up'],
  ['startup', 'The operator had not read the cluster yet'],
]);

/** @type {ReadonlyMap<string, string>} */
const SCOPES = new Map([
  ['*', 'all tenant clusters'],
  ['pods', 'CPU and memory'],
  ['gpus', 'GPUs and whole nodes'],
  ['volumes', 'storage'],
  ['load-balancers', 'load balancers'],
  ['workloads', 'instance hours'],
]);
const SCOPES_SHOWN = 6;

/** What was not measured, one entry for each cause and happening. @param {{ groups: any[], empty: string }} properties */
export function GapList({ groups, empty }) {
  if (groups.length === 0) return html`<p class="empty">${empty}</p>`;
  return html`<ul class="gaps">${groups.map((group) => html`<${Gap} group=${group} />`)}</ul>`;
}

/** @param {{ group: any }} properties */
function Gap({ group }) {
  const names = useNames();
  const { open, source, reasons, tenants } = group;
  const of = tenants.map((/** @type {string} */ id) => names.tenant(id)).join(', ');
  return html`
    <li class=${open ? 'open' : ''}>
      <strong>${CAUSES.get(source) ?? `The cluster's ${source} could not be watched`}</strong>
      <span>${open ? `since ${time(group.from)}, ${duration(group.seconds)} so far` : `${time(group.from)} to ${time(group.to)}, ${duration(group.seconds)}`}</span>
      <span>Missing: ${of === '' ? scopesText(group) : `tenant clusters of ${of}`}</span>
      <details>
        <summary>What it says${reasons > 1 ? `, the newest of ${counted(reasons, 'text')}` : ''}</summary>
        <p>${group.reason}</p>
        <p class="muted">Source <code>${source}</code>; ${counted(group.gaps, 'stretch', 'stretches')}: ${group.scopes.join(', ')}</p>
      </details>
    </li>
  `;
}

/** @param {any} group */
function scopesText({ scopes, scope_count: all }) {
  const shown = scopes
    .slice(0, SCOPES_SHOWN)
    .map((/** @type {string} */ id) => SCOPES.get(id) ?? id);
  const rest = all - shown.length;
  return `${shown.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
}
