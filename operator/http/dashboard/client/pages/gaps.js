import { html } from '../preact.js';
import { useApi, url } from '../api.js';
import { Card, ErrorNotice, PageHead } from '../components.js';
import { time } from '../format.js';
import { GapList } from '../gap-list.js';
import { unknownBefore } from '../holes.js';
import { TenantChoice } from '../names.js';
import { RangePicker, rangeOf } from '../time-range.js';

const REFRESH_MS = 60_000;

/** Gaps of a time, of all tenants or one. @param {{ query: URLSearchParams }} properties */
export function GapsPage({ query }) {
  const range = rangeOf(query, Date.now());
  const tenant = query.get('tenant') ?? '';
  const gaps = useApi(url('/api/v1/gaps', { from: range.from, to: range.to, tenant }), REFRESH_MS);
  const { data } = gaps;
  const [before] = data === undefined ? [] : unknownBefore(data);
  return html`
    <${PageHead} title="What was not measured"><${RangePicker} range=${range} /></${PageHead}>
    <div class="controls">
      <${TenantChoice} tenant=${tenant} />
    </div>
    <p class="muted">Usage in a gap is unknown, not zero, and is not billed. A gap disappears from this list when its usage is measured later.</p>
    <${ErrorNotice} state=${gaps} />
    ${before && html`<p class="notice"><span class="swatch before"></span>${data.measured_since === undefined ? 'Nothing was metered yet.' : `Metering began on ${time(data.measured_since)}: earlier usage is unknown.`}</p>`}
    ${
      data &&
      html`
      <${Card} title="Open"><${GapList} groups=${data.open} empty="None: everything is measured now." /></${Card}>
      <${Card} title="Ended"><${GapList} groups=${data.ended} empty="None in this time." /></${Card}>
    `
    }
  `;
}
