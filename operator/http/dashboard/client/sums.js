import { html } from './preact.js';
import { link } from './location.js';

/**
 * What a sum is of: a metric in a range of days, of one tenant or with one SKU where they are named.
 * @typedef {{ metric: string, from: string, to: string, tenant?: string | undefined, sku?: string | undefined,
 *   cluster?: string | undefined, project?: string | undefined, region?: string | undefined }} SumOf
 */

/** The page that takes a sum apart. @param {SumOf} of */
export function sumPlace({ from, to, ...of }) {
  return link(['sums'], { ...of, from, to });
}

/** A sum that can be taken apart: days, windows, events, why. @param {{ of: SumOf, label: string, text: string }} properties */
export function SumLink({ of, label, text }) {
  return html`<a class="sum" href=${sumPlace(of)} aria-label=${`${label}: ${text}, day by day`}>${text}</a>`;
}
