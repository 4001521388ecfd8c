import { html, useEffect } from '../preact.js';
import { useApi } from '../api.js';
import { Card, ErrorNotice, PageHead } from '../components.js';
import { Markdown } from '../markdown.js';

/** A page of the documentation that this operator came with. @param {{ page: string, query: URLSearchParams }} properties */
export function DocsPage({ page, query }) {
  const document = useApi(`/dashboard/docs/${encodeURIComponent(page)}`);
  const text = document.data?.text;
  const at = query.get('at');
  useEffect(() => {
    if (text === undefined || at === null) return;
    const place = globalThis.document.getElementById(at);
    place?.scrollIntoView();
    place?.focus({ preventScroll: true });
  }, [text, at]);
  const title = /^# (.*)$/m.exec(text ?? '')?.[1] ?? 'Documentation';
  return html`
    <${PageHead} title=${title}><a href="#/docs/README.md">All pages</a></${PageHead}>
    <${ErrorNotice} state=${document} />
    ${text !== undefined && html`<${Card}><div class="prose"><${Markdown} text=${text.replace(/^# .*$/m, '')} /></div></${Card}>`}
  `;
}
