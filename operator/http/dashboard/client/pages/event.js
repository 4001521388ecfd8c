import { html } from '../preact.js';
import { useApi } from '../api.js';
import { Card, PageHead, Trouble } from '../components.js';

/** The objects, spans and rule behind one number. @param {{ id: string }} properties */
export function EventPage({ id }) {
  const explained = useApi(`/api/v1/events/${encodeURIComponent(id)}/explain`);
  return html`
    <${PageHead} title="Why this number" />
    <${Trouble} state=${explained} />
    ${explained.data && html`<${Card}><pre>${JSON.stringify(explained.data, null, 2)}</pre></${Card}>`}
  `;
}
