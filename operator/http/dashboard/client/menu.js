import { html, useEffect, useState } from './preact.js';
import { documentPlace } from './documents.js';
import { link } from './location.js';

const NAVIGATION = [
  ['', 'Overview'],
  ['months', 'Months'],
  ['usage', 'Usage'],
  ['gpus', 'GPUs'],
  ['tenants', 'Tenants'],
  ['gaps', 'Gaps'],
  ['destinations', 'Destinations'],
  ['windows', 'Windows'],
  ['enforcement', 'Enforcement'],
];

/** The page that only a hub has, and the pages that a hub does not have. */
const FLEET = ['fleet', 'Fleet'];
const OF_ONE_CLUSTER = ['enforcement'];

const THEME_KEY = 'meterfeed-theme';

/**
 * The header with the navigation, which is behind a button on a narrow screen.
 * @param {{ place: import('./location.js').Place, status: any, fleet: any }} properties
 */
export function SiteHeader({ place, status, fleet }) {
  const { page, cluster } = place;
  const isHub = fleet?.role === 'hub';
  const pages = isHub
    ? [FLEET, ...NAVIGATION.filter(([to = '']) => !OF_ONE_CLUSTER.includes(to))]
    : NAVIGATION;
  const [open, setOpen] = useState(false);
  useEffect(() => setOpen(false), [page]);
  return html`
    <header class="site">
      <a class="brand" href=${link([])}><img src="/dashboard/icon.svg" alt="" />meterfeed</a>
      ${isHub ? html`<${ClusterPicker} place=${place} streams=${fleet.streams} />` : status && html`<span class="cluster">${status.cluster} · ${status.region}</span>`}
      <button class="menu" aria-expanded=${open ? 'true' : 'false'} aria-controls="pages" onClick=${() => setOpen(!open)}>Menu</button>
      <nav class=${open ? 'site open' : 'site'} id="pages" aria-label="Pages">
        ${pages.map(
          ([to = '', text]) => html`
            <a href=${link(to === '' ? [] : [to], {}, to === 'fleet' ? '' : cluster)} aria-current=${page === to ? 'page' : undefined} onClick=${() => setOpen(false)}>${text}</a>
          `,
        )}
      </nav>
    </header>
  `;
}

/**
 * A choice of one cluster or all; the page stays.
 * @param {{ place: import('./location.js').Place, streams: any[] }} properties
 */
function ClusterPicker({ place, streams }) {
  const { cluster = '', page, args, query } = place;
  const pick = (/** @type {any} */ event) => {
    // An object of one cluster does not exist in another.
    const path =
      args.length > 0 && page !== 'months' && page !== 'tenants' ? [page] : [page, ...args];
    location.hash = link(path, Object.fromEntries(query), event.currentTarget.value);
  };
  return html`
    <label class="field cluster">
      <select aria-label="Cluster" value=${cluster} onChange=${pick}>
        <option value="" selected=${cluster === ''}>All clusters</option>
        ${streams.filter(({ meter, cluster: name }) => meter || name === cluster).map(({ cluster: name, region }) => html`<option value=${name} selected=${cluster === name}>${name} · ${region}</option>`)}
      </select>
    </label>
  `;
}

/** @param {{ status: any }} properties */
export function SiteFooter({ status }) {
  return html`
    <footer class="site">
      <${ThemeButton} />
      <a href=${link(['docs', 'README.md'])}>Documentation</a>
      <a href=${documentPlace('reference/glossary.md')}>Glossary</a>
      ${status && html`<span class="muted">meterfeed ${status.version}. All times are UTC.</span>`}
    </footer>
  `;
}

function ThemeButton() {
  const [theme, setTheme] = useState(localStorage.getItem(THEME_KEY) ?? '');
  useEffect(() => {
    if (theme === '') delete document.documentElement.dataset['theme'];
    else document.documentElement.dataset['theme'] = theme;
    localStorage.setItem(THEME_KEY, theme);
  }, [theme]);
  return html`
    <label class="field">
      Theme
      <select value=${theme} onChange=${(/** @type {any} */ event) => setTheme(event.currentTarget.value)}>
        <option value="" selected=${theme === ''}>As the system</option>
        <option value="light" selected=${theme === 'light'}>Light</option>
        <option value="dark" selected=${theme === 'dark'}>Dark</option>
      </select>
    </label>
  `;
}
