import { html } from '../preact.js';
import { useApi } from '../api.js';
import { ErrorNotice, PageHead } from '../components.js';
import { EventFacts, Notices, Objects, Rule, Steps } from '../pages/event.js';

/** What stands behind one number of the tenant's own. @param {{ id: string }} properties */
export function PortalWhy({ id }) {
  const explained = useApi(`/api/v1/events/${encodeURIComponent(id)}/explain`);
  const { data } = explained;
  return html`
    <${PageHead} title="Why this number" />
    <${ErrorNotice} state=${explained} />
    ${
      data &&
      html`
        <${Steps} event=${data.event} isOwn=${true} />
        <${Notices} explanation=${data} />
        <div class="grid">
          <${EventFacts} event=${data.event} isOwn=${true} />
          <${Rule} explanation=${data} isOwn=${true} />
        </div>
        ${data.source !== 'correction' && html`<${Objects} explanation=${data} />`}
      `
    }
  `;
}
