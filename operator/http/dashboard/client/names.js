import { createContext, html, useContext } from './preact.js';
import { CopyButton } from './buttons.js';
import { Choice, withChosen } from './components.js';
import { unitText } from './format.js';
import { link, setQuery } from './location.js';

/**
 * Readable names for codes and ids.
 * @typedef {object} Names
 * @property {any[]} metrics of the catalogue, in its order
 * @property {any[]} tenants
 * @property {(code: string) => string} metric its name
 * @property {(code: string, unit?: string) => string} metricWithUnit its name and its unit, without
 *   repeating it
 * @property {(code: string) => string} splitOf the key that a chart of the metric is split by
 * @property {(id: string) => string} tenant its display name
 * @property {(id: string) => string} cluster the name of a tenant cluster
 * @property {(key: string, value: string) => string} value of what usage can be split by,
 *   `tenant_cluster` for one
 */

/** The keys that usage can be split by, in the order in which they are offered. */
export const KEYS = [
  ['tenant', 'Tenant'],
  ['sku', 'SKU'],
  ['model', 'Model'],
  ['token_type', 'Kind of token'],
  ['tenant_cluster', 'Tenant cluster'],
  ['project', 'Project'],
  ['capacity_type', 'Capacity type'],
  ['billing_mode', 'Billing mode'],
  ['tenant_class', 'Tenant class'],
  ['gpu_type', 'GPU type'],
  ['gpu_profile', 'GPU profile'],
  ['region', 'Region'],
  ['zone', 'Zone'],
  ['namespace', 'Namespace'],
  ['source', 'Source'],
];
/** Keys whose values are words. */
const SPELLED = ['billing_mode', 'token_type'];
const KEY_NAMES = new Map(/** @type {[string, string][]} */ (KEYS));

/** The readable name of a dimension or field of events. @param {string} key */
export function keyName(key) {
  return KEY_NAMES.get(key) ?? sentence(key);
}

/**
 * @param {any[]} metrics
 * @param {any[] | undefined} known the tenants; undefined while they are not here yet
 * @returns {Names}
 */
export function createNames(metrics, known) {
  const tenants = known ?? [];
  const byCode = new Map(metrics.map((metric) => [metric.code, metric]));
  const byId = new Map(tenants.map((tenant) => [tenant.id, tenant.display_name]));
  const clusters = new Map(tenants.flatMap((tenant) => Object.entries(tenant.cluster_names ?? {})));
  const metric = (/** @type {string} */ code) => {
    const name = byCode.get(code)?.name ?? code;
    return name === code ? sentence(code) : name;
  };
  const tenant = (/** @type {string} */ id) => byId.get(id) || id;
  const cluster = (/** @type {string} */ id) => {
    const bare = id.replace(/^(tenant|external|project)-(?=.)/, '');
    return (
      clusters.get(id) ?? (known === undefined || bare === id ? bare : `${bare} (no longer there)`)
    );
  };
  return {
    metrics,
    tenants,
    metric,
    metricWithUnit: (code, unit = byCode.get(code)?.unit ?? '') => {
      const name = metric(code);
      return unit === '' || words(name).includes(words(unit)) ? name : `${name}, ${unitText(unit)}`;
    },
    splitOf: (code) => (byCode.get(code)?.dimensions.includes('model') ? 'model' : 'sku'),
    tenant,
    cluster,
    value: (key, value) => {
      if (value === '') return 'none';
      if (key === 'tenant') return tenant(value);
      if (key === 'tenant_cluster') return cluster(value);
      if (key === 'source') return sourceText(value);
      return SPELLED.includes(key) ? value.replaceAll('_', ' ') : value;
    },
  };
}

/** The readable source of an event. @param {string} source */
export function sourceText(source) {
  if (source === 'collector') return 'measured here';
  if (source === 'correction') return 'corrected by hand';
  return source.replace(/^ingest:/, 'pushed by ');
}

/** `tokens_used` as people write it. @param {string} code */
function sentence(code) {
  const text = code.replaceAll('_', ' ').trim();
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** @param {string} text */
function words(text) {
  return text.toLowerCase().replaceAll(/[^a-z0-9]+/g, ' ');
}

export const NamesContext = createContext(createNames([], undefined));

/** @returns {Names} */
export function useNames() {
  return useContext(NamesContext);
}

/**
 * The name of a tenant, with a link to its page.
 * @param {{ id: string, query?: Record<string, string | undefined> }} properties
 */
export function TenantLink({ id, query = {} }) {
  return html`<a href=${link(['tenants', id], query)}>${useNames().tenant(id)}</a>`;
}

/**
 * A choice of one tenant or all: the parameter `tenant` of the page.
 * @param {{ tenant: string }} properties empty for all
 */
export function TenantChoice({ tenant }) {
  const known = useNames().tenants.map(({ id, display_name: name }) => [id, name]);
  const ids = tenant === '' ? known : withChosen(known, tenant);
  return html`<${Choice} label="Tenant" value=${tenant} options=${[['', 'All tenants'], ...ids]} onChoose=${(/** @type {string} */ value) => setQuery({ tenant: value })} />`;
}

/**
 * A name, with a button that copies its id.
 * @param {{ name: string, id: string, what: string }} properties
 */
export function NameWithId({ name, id, what }) {
  return html`${name} <${CopyButton} text=${id} what=${what} />`;
}

/**
 * The name of a tenant cluster, with a button that copies its id.
 * @param {{ id: string }} properties
 */
export function ClusterName({ id }) {
  return html`<${NameWithId} name=${useNames().cluster(id)} id=${id} what="tenant cluster id" />`;
}
