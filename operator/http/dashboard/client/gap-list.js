import { html } from './preact.js';
import { CopyButton } from './buttons.js';
import { counted } from './format.js';
import { causeText, gapTime, isCluster, scopeText } from './gap-words.js';
import { useNames } from './names.js';

const SCOPES_SHOWN = 6;

/** Gaps, one entry for each cause and time. @param {{ groups: any[], empty: string }} properties */
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
      <strong>${causeText(source)}</strong>
      <span>${gapTime(group)}</span>
      <span>Missing: ${of === '' ? scopesText(group, names) : `tenant clusters of ${of}`}</span>
      <details>
        <summary>Details${reasons > 1 ? `, the newest of ${counted(reasons, 'message')}` : ''}</summary>
        <p>${group.reason}</p>
        <p class="muted">${counted(group.gaps, 'gap')} in</p>
        <ul>${group.scopes.map((/** @type {string} */ scope) => html`<li>${scopeText(scope, names)} ${isCluster(scope) && html`<${CopyButton} text=${scope} what="tenant cluster id" />`}</li>`)}</ul>
        ${group.scope_count > group.scopes.length && html`<p class="muted">and ${group.scope_count - group.scopes.length} more</p>`}
      </details>
    </li>
  `;
}

/** @param {any} group @param {import('./names.js').Names} names */
function scopesText({ scopes, scope_count: all }, names) {
  const shown = scopes
    .slice(0, SCOPES_SHOWN)
    .map((/** @type {string} */ scope) => scopeText(scope, names));
  const rest = all - shown.length;
  return `${shown.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
}
