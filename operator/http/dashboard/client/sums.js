import { html } from './preact.js';
import { link } from './location.js';

/**
 * The selection of a sum: a metric in a range of time, and perhaps one tenant, SKU, cluster,
 * project or region.
 * @typedef {{ metric: string, from: string, to: string, tenant?: string | undefined, sku?: string |
 *   undefined, cluster?: string | undefined, project?: string | undefined, region?: string |
 *   undefined }} SumOf
 */

/** The link to the page that breaks a sum down. @param {SumOf} of */
export function sumPlace({ from, to, ...of }) {
  return link(['sums'], { ...of, from, to });
}

/**
 * A sum that links to its breakdown.
 * @param {{ of: SumOf, label: string, text: string }} properties
 */
export function SumLink({ of, label, text }) {
  return html`<a class="sum" href=${sumPlace(of)} aria-label=${`${label}: ${text}, day by day`}>${text}</a>`;
}
