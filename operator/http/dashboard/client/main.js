import { html, render, useEffect, useMemo, useState } from './preact.js';
import { onRefused, token, useApi } from './api.js';
import { link, usePlace } from './location.js';
import { SiteFooter, SiteHeader } from './menu.js';
import { HubContext } from './hub.js';
import { createNames, NamesContext } from './names.js';
import { DestinationPage, DestinationsPage } from './pages/destinations.js';
import { DocsPage } from './pages/docs.js';
import { EnforcementPage } from './pages/enforcement.js';
import { EventPage } from './pages/event.js';
import { FleetPage } from './pages/fleet.js';
import { GapsPage } from './pages/gaps.js';
import { GpusPage } from './pages/gpus.js';
import { MonthPage } from './pages/months.js';
import { OverviewPage } from './pages/overview.js';
import { SumsPage } from './pages/sums.js';
import { TenantPage } from './pages/tenant.js';
import { TenantsPage } from './pages/tenants.js';
import { UsagePage } from './pages/usage.js';
import { WindowPage, WindowsPage } from './pages/windows.js';
import { PageHead, SkipLink } from './components.js';

/** @typedef {import('./location.js').Place} Place */

const STATUS_MS = 15_000;
const NAMES_MS = 60_000;
/** The operator marks the page when it would refuse every request without a token. */
const NEEDS_TOKEN = document.documentElement.dataset['token'] === 'needed';

/** @param {{ place: Place, status: any }} properties */
function Page({ place, status }) {
  const { page, args, query } = place;
  const [id] = args;
  if (page === '') return html`<${OverviewPage} status=${status} query=${query} />`;
  if (page === 'usage') return html`<${UsagePage} query=${query} status=${status} />`;
  if (page === 'months') return html`<${MonthPage} month=${id} query=${query} />`;
  if (page === 'sums') return html`<${SumsPage} query=${query} />`;
  if (page === 'gpus') return html`<${GpusPage} query=${query} status=${status} />`;
  if (page === 'gaps') return html`<${GapsPage} query=${query} />`;
  if (page === 'tenants' && id !== undefined)
    return html`<${TenantPage} id=${id} query=${query} status=${status} />`;
  if (page === 'tenants') return html`<${TenantsPage} query=${query} />`;
  if (page === 'windows' && id !== undefined) return html`<${WindowPage} end=${id} />`;
  if (page === 'windows') return html`<${WindowsPage} />`;
  if (page === 'destinations' && id !== undefined)
    return html`<${DestinationPage} name=${id} status=${status} />`;
  if (page === 'destinations') return html`<${DestinationsPage} status=${status} />`;
  if (page === 'fleet') return html`<${FleetPage} />`;
  if (page === 'enforcement') return html`<${EnforcementPage} />`;
  if (page === 'events' && id !== undefined) return html`<${EventPage} id=${id} />`;
  if (page === 'docs')
    return html`<${DocsPage} page=${id === undefined ? 'README.md' : args.join('/')} query=${query} />`;
  return html`
    <${PageHead} title="No such page" />
    <p>The link names a page that does not exist. <a href=${link([])}>Go to the overview</a>.</p>
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
      <h1>API token needed</h1>
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

function App() {
  const place = usePlace();
  const [refused, setRefused] = useState(NEEDS_TOKEN && token.get() === '');
  useEffect(() => onRefused(() => setRefused(true)), []);
  const status = useApi(refused ? undefined : '/api/v1/status', STATUS_MS);
  const catalog = useApi(refused ? undefined : '/api/v1/catalog', NAMES_MS);
  const fleet = useApi(refused ? undefined : '/api/v1/fleet', NAMES_MS);
  const tenants = useApi(refused ? undefined : '/api/v1/tenants', NAMES_MS);
  const names = useMemo(
    () => createNames(catalog.data?.metrics ?? [], tenants.data?.tenants),
    [catalog.data, tenants.data],
  );
  const { data } = status;
  const isHub = fleet.data === undefined ? fleet.error && false : fleet.data.role === 'hub';
  return html`
    <${SkipLink} />
    <${SiteHeader} place=${place} status=${data} fleet=${fleet.data} />
    <main id="content" tabindex="-1">
      ${
        refused
          ? html`<${TokenForm} onGiven=${() => setRefused(false)} />`
          : html`<${HubContext.Provider} value=${isHub}><${NamesContext.Provider} value=${names}><${Page} key=${`${place.cluster ?? ''}/${place.page}/${place.args.join('/')}`} place=${place} status=${status} /></${NamesContext.Provider}></${HubContext.Provider}>`
      }
    </main>
    <${SiteFooter} status=${data} />
  `;
}

const root = document.getElementById('app');
if (root !== null) {
  root.replaceChildren();
  render(html`<${App} />`, root);
}
