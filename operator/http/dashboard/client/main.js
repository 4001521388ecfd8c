import { html, render, useEffect, useState } from './preact.js';
import { onRefused, token, useApi } from './api.js';
import { link, usePlace } from './location.js';
import { DestinationPage, DestinationsPage } from './pages/destinations.js';
import { EnforcementPage } from './pages/enforcement.js';
import { EventPage } from './pages/event.js';
import { OverviewPage } from './pages/overview.js';
import { TenantPage, TenantsPage } from './pages/tenants.js';
import { UsagePage } from './pages/usage.js';
import { WindowPage, WindowsPage } from './pages/windows.js';
import { PageHead } from './components.js';

/** @typedef {import('./location.js').Place} Place */

const NAVIGATION = [
  ['', 'Overview'],
  ['usage', 'Usage'],
  ['tenants', 'Tenants'],
  ['windows', 'Windows'],
  ['destinations', 'Destinations'],
  ['enforcement', 'Enforcement'],
];

const THEME_KEY = 'meterfeed-theme';
const STATUS_MS = 15_000;

/** @param {{ place: Place, status: any }} properties */
function Page({ place, status }) {
  const { page, args, query } = place;
  const [id] = args;
  if (page === '') return html`<${OverviewPage} status=${status} query=${query} />`;
  if (page === 'usage') return html`<${UsagePage} query=${query} />`;
  if (page === 'tenants' && id !== undefined)
    return html`<${TenantPage} id=${id} query=${query} />`;
  if (page === 'tenants') return html`<${TenantsPage} query=${query} />`;
  if (page === 'windows' && id !== undefined) return html`<${WindowPage} end=${id} />`;
  if (page === 'windows') return html`<${WindowsPage} />`;
  if (page === 'destinations' && id !== undefined)
    return html`<${DestinationPage} name=${id} status=${status} />`;
  if (page === 'destinations') return html`<${DestinationsPage} status=${status} />`;
  if (page === 'enforcement') return html`<${EnforcementPage} />`;
  if (page === 'events' && id !== undefined) return html`<${EventPage} id=${id} />`;
  return html`
    <${PageHead} title="No such page" />
    <p>The link names a page that does not exist. <a href="#/">Go to the overview</a>.</p>
  `;
}

/** @param {{ onGiven: () => void }} properties */
function TokenForm({ onGiven }) {
  const [value, setValue] = useState('');
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    token.set(value.trim());
    onGiven();
  };
  return html`
    <form class="token card" onSubmit=${submit}>
      <h1>This meterfeed asks for a token</h1>
      <p>
        Use one of the tokens in <code>API_TOKEN</code> of the operator. It is kept for this tab only and
        forgotten when the tab closes.
      </p>
      <label class="field">
        API token
        <input type="password" autocomplete="off" required value=${value}
          onInput=${(/** @type {any} */ event) => setValue(event.currentTarget.value)} />
      </label>
      ${token.get() !== '' && html`<p role="alert" class="notice bad">The token was not accepted.</p>`}
      <button class="primary">Open</button>
    </form>
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

function App() {
  const place = usePlace();
  const [refused, setRefused] = useState(false);
  useEffect(() => onRefused(() => setRefused(true)), []);
  const status = useApi(refused ? undefined : '/api/v1/status', STATUS_MS);
  const { data } = status;
  return html`
    <a class="skip" href="#content" onClick=${skipToContent}>Skip to the content</a>
    <header class="site">
      <a class="brand" href="#/"><img src="/dashboard/icon.svg" alt="" />meterfeed</a>
      <nav class="site" aria-label="Pages">
        ${NAVIGATION.map(
          ([page = '', text]) => html`
            <a href=${link(page === '' ? [] : [page])} aria-current=${place.page === page ? 'page' : undefined}>${text}</a>
          `,
        )}
      </nav>
      ${data && html`<span class="cluster">${data.cluster} · ${data.region}</span>`}
      <${ThemeButton} />
    </header>
    <main id="content" tabindex="-1">
      ${
        refused
          ? html`<${TokenForm} onGiven=${() => setRefused(false)} />`
          : html`<${Page} key=${`${place.page}/${place.args.join('/')}`} place=${place} status=${status} />`
      }
    </main>
  `;
}

/** The fragment belongs to the pages, so the link moves the focus itself. @param {Event} event */
function skipToContent(event) {
  event.preventDefault();
  document.getElementById('content')?.focus();
}

const root = document.getElementById('app');
if (root !== null) {
  root.replaceChildren();
  render(html`<${App} />`, root);
}
