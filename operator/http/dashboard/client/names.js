import { createContext, html, useContext } from './preact.js';
import { CopyButton } from './buttons.js';
import { unitText } from './format.js';
import { link } from './location.js';

/**
 * What things are called. Codes and ids are for machines; people read these.
 * @typedef {object} Names
 * @property {any[]} metrics of the catalogue, in its order
 * @property {any[]} tenants
 * @property {(code: string) => string} metric its name
 * @property {(code: string, unit?: string) => string} metricWithUnit its name and its unit, which is said once
 * @property {(id: string) => string} tenant its display name
 */

/** @param {any[]} metrics @param {any[]} tenants @returns {Names} */
export function createNames(metrics, tenants) {
  const byCode = new Map(metrics.map((metric) => [metric.code, metric]));
  const byId = new Map(tenants.map((tenant) => [tenant.id, tenant.display_name]));
  const metric = (/** @type {string} */ code) => byCode.get(code)?.name ?? code;
  return {
    metrics,
    tenants,
    metric,
    metricWithUnit: (code, unit = byCode.get(code)?.unit ?? '') => {
      const name = metric(code);
      return unit === '' || words(name).includes(words(unit)) ? name : `${name}, ${unitText(unit)}`;
    },
    tenant: (id) => byId.get(id) || id,
  };
}

/** @param {string} text */
function words(text) {
  return text.toLowerCase().replaceAll(/[^a-z0-9]+/g, ' ');
}

export const NamesContext = createContext(createNames([], []));

/** @returns {Names} */
export function useNames() {
  return useContext(NamesContext);
}

/** A tenant by name, which leads to its page. @param {{ id: string, query?: Record<string, string | undefined> }} properties */
export function TenantLink({ id, query = {} }) {
  return html`<a href=${link(['tenants', id], query)}>${useNames().tenant(id)}</a>`;
}

/** A name with the id behind it, to be copied. @param {{ name: string, id: string, what: string }} properties */
export function NameWithId({ name, id, what }) {
  return html`${name} <${CopyButton} text=${id} what=${what} />`;
}
