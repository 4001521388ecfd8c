import { html } from '../preact.js';
import { useApi } from '../api.js';
import { ErrorNotice, PageHead } from '../components.js';
import { EventFacts, Notices, Objects, Rule, Steps } from '../pages/event.js';

/** The explanation of one of the tenant's own events. @param {{ id: string }} properties */
export function PortalWhy({ id }) {
  const explained = useApi(`/api/v1/events/${encodeURIComponent(id)}/explain`);
  const { data } = explained;
  return html`
    <${PageHead} title="Why this number" />
    <${ErrorNotice} state=${explained} />
    ${
      data &&
      html`
        <${Steps} event=${data.event} isPortal=${true} />
        <${Notices} explanation=${data} />
        <div class="grid">
          <${EventFacts} event=${data.event} isPortal=${true} />
          <${Rule} explanation=${data} isPortal=${true} />
        </div>
        ${data.source !== 'correction' && html`<${Objects} explanation=${data} />`}
      `
    }
  `;
}
