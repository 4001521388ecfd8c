import { html, useEffect, useState } from './preact.js';
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

const THEME_KEY = 'meterfeed-theme';

/** The pages; on a narrow screen behind a button. @param {{ page: string, status: any }} properties */
export function SiteHeader({ page, status }) {
  const [open, setOpen] = useState(false);
  useEffect(() => setOpen(false), [page]);
  return html`
    <header class="site">
      <a class="brand" href="#/"><img src="/dashboard/icon.svg" alt="" />meterfeed</a>
      ${status && html`<span class="cluster">${status.cluster} · ${status.region}</span>`}
      <button class="menu" aria-expanded=${open ? 'true' : 'false'} aria-controls="pages" onClick=${() => setOpen(!open)}>Menu</button>
      <nav class=${open ? 'site open' : 'site'} id="pages" aria-label="Pages">
        ${NAVIGATION.map(
          ([to = '', text]) => html`
            <a href=${link(to === '' ? [] : [to])} aria-current=${page === to ? 'page' : undefined} onClick=${() => setOpen(false)}>${text}</a>
          `,
        )}
      </nav>
    </header>
  `;
}

/** @param {{ status: any }} properties */
export function SiteFooter({ status }) {
  return html`
    <footer class="site">
      <${ThemeButton} />
      <a href="#/docs/README.md">Documentation</a>
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
