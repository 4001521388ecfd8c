import { html, render, useEffect, useMemo, useState } from '../preact.js';
import { onRefused, read, token, useApi } from '../api.js';
import { PageHead, site, SkipLink } from '../components.js';
import { usePlace } from '../location.js';
import { createNames, NamesContext } from '../names.js';
import { SumsPage } from '../pages/sums.js';
import { PortalOverview } from './overview.js';
import { takeFragment, tenantOfToken } from './session.js';
import { PortalWhy } from './why.js';

const NAMES_MS = 60_000;
const BRAND = '/portal/brand.json';

/** @typedef {{ name?: string, logo: boolean }} Brand */

/** @param {{ place: import('../location.js').Place, id: string, tenant: any }} properties */
function Page({ place: { page, args, query }, id, tenant }) {
  const [event] = args;
  if (page === 'sums') return html`<${SumsPage} query=${query} isPortal=${true} />`;
  if (page === 'events' && event !== undefined) return html`<${PortalWhy} id=${event} />`;
  if (page === '') return html`<${PortalOverview} id=${id} tenant=${tenant} query=${query} />`;
  return html`
    <${PageHead} title="No such page" />
    <p>The link names a page that does not exist. <a href="#/">Go to the overview</a>.</p>
  `;
}

/** The page for a reader without a valid token. @param {{ wasGood: boolean }} properties */
function Closed({ wasGood }) {
  return html`
    <${PageHead} title=${wasGood ? 'This link is no longer valid' : 'This page needs a link'} />
    <p role="alert">
      ${
        wasGood
          ? 'It has expired, or your provider has revoked it. Please open the page again from where you came, or ask for a new link.'
          : 'Please open it from where your provider links to it.'
      }
    </p>
  `;
}

/** @param {{ brand: Brand }} properties */
function App({ brand }) {
  const place = usePlace();
  const id = tenantOfToken();
  const [refused, setRefused] = useState(id === '');
  useEffect(() => onRefused(() => setRefused(true)), []);
  const tenant = useApi(
    refused ? undefined : `/api/v1/tenants/${encodeURIComponent(id)}`,
    NAMES_MS,
  );
  const catalog = useApi(refused ? undefined : '/api/v1/catalog', NAMES_MS);
  const names = useMemo(
    () => createNames(catalog.data?.metrics ?? [], tenant.data && [tenant.data]),
    [catalog.data, tenant.data],
  );
  return html`
    <${SkipLink} />
    <header class="site">
      <a class="brand" href="#/">${brand.logo && html`<img src="/portal/logo" alt="" />`}${site.name}</a>
      ${tenant.data && html`<span class="whose">${tenant.data.display_name}</span>`}
    </header>
    <main id="content" tabindex="-1">
      ${
        refused
          ? html`<${Closed} wasGood=${token.get() !== ''} />`
          : html`<${NamesContext.Provider} value=${names}><${Page} key=${`${place.page}/${place.args.join('/')}`} place=${place} id=${id} tenant=${tenant} /></${NamesContext.Provider}>`
      }
    </main>
    <footer class="site"><span class="muted">All times are UTC.</span></footer>
  `;
}

/** A page without its name is better than none. @returns {Promise<Brand>} */
async function readBrand() {
  try {
    return await read(BRAND);
  } catch {
    return { logo: false };
  }
}

takeFragment();
const brand = await readBrand();
site.name = brand.name ?? 'Usage';
const root = document.getElementById('app');
let renders = 0;

function show() {
  if (root === null) return;
  if (renders === 0) root.replaceChildren();
  renders += 1;
  render(html`<${App} key=${renders} brand=${brand} />`, root);
}

// The embedding page passes a new token in the fragment before the old one expires.
addEventListener('hashchange', () => {
  if (takeFragment()) show();
});
show();
