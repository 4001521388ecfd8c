import { html, useContext } from './preact.js';
import { url } from './api.js';
import { DownloadButton } from './downloads.js';
import { monthText } from './format.js';
import { HubContext } from './hub.js';

/**
 * Buttons for the files of a month: its charges for finance tools and what that file lacks
 * (docs/reference/focus.md), and the statement of one tenant (docs/how-to/check-a-bill.md). A hub
 * has no statements.
 * @param {{ month: string, tenant: string, isPriced: boolean, advice: string }} properties `tenant`
 *   is empty for all; `advice` is for a month that is not wholly stored
 */
export function BillFiles({ month, tenant, isPriced, advice }) {
  const isHub = useContext(HubContext) === true;
  const focus = (/** @type {string} */ format) => url('/api/v1/focus', { month, tenant, format });
  const statement = `/api/v1/tenants/${encodeURIComponent(tenant)}/statement`;
  const name = `tatement of ${monthText(month)}`;
  return html`
    <div class="downloads">
      ${isPriced && html`<${DownloadButton} text="FOCUS file" address=${focus('csv')} csv=${false} />`}
      ${isPriced && html`<${DownloadButton} text="FOCUS manifest" address=${focus('manifest')} csv=${false} />`}
      ${tenant !== '' && !isHub && html`<${DownloadButton} text=${`S${name}`} address=${url(statement, { month })} csv=${false} incomplete=${`There is no s${name}, because not all of its events are stored. ${advice}`} />`}
    </div>
  `;
}
