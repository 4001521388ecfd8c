import { html, useEffect } from '../preact.js';
import { link } from '../location.js';
import { useApi } from '../api.js';
import { Card, ErrorNotice, PageHead } from '../components.js';
import { Markdown } from '../markdown.js';

/**
 * A page of this operator's documentation. Other files are shown as plain text.
 * @param {{ page: string, query: URLSearchParams }} properties
 */
export function DocsPage({ page, query }) {
  const document = useApi(`/dashboard/docs/${page.split('/').map(encodeURIComponent).join('/')}`);
  const text = document.data?.text;
  const at = query.get('at');
  useEffect(() => {
    if (text === undefined || at === null) return;
    const place = globalThis.document.getElementById(at);
    place?.scrollIntoView();
    place?.focus({ preventScroll: true });
  }, [text, at]);
  const isPage = page.endsWith('.md');
  const title = isPage ? (/^# (.*)$/m.exec(text ?? '')?.[1] ?? 'Documentation') : page;
  return html`
    <${PageHead} title=${title}><a href=${link(['docs', 'README.md'])}>All pages</a></${PageHead}>
    <${ErrorNotice} state=${document} />
    ${text !== undefined && html`<${Card}>${isPage ? html`<div class="prose"><${Markdown} text=${text.replace(/^# .*$/m, '')} page=${page} /></div>` : html`<pre tabindex="0">${text}</pre>`}</${Card}>`}
  `;
}
