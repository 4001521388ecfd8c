import { duration, time } from './format.js';

/** @typedef {import('./names.js').Names} Names */

/** @type {ReadonlyMap<string, string>} */
const CAUSES = new Map([
  ['metrics', 'CPU and memory usage could not be read'],
  ['collector', 'Metering was not running'],
  ['tenant-api', 'The API of a tenant cluster could not be read'],
  ['prometheus', 'Prometheus did not answer'],
  ['resourceslices', 'A node publishes too many resource slices'],
  ['private-nodes', 'A tenant cluster has more private nodes than are metered'],
  ['quarantine', 'Something in a tenant cluster could not be measured'],
  ['discovery', 'Tenant clusters could not be looked up'],
  ['startup', 'The operator had not read the cluster yet'],
]);

/** Readable names of resources. @type {ReadonlyMap<string, string>} */
const WATCHED = new Map([
  ['gpus', 'GPUs'],
  ['persistentvolumeclaims', 'volume claims'],
  ['resourceclaims', 'resource claims'],
  ['statefulsets', 'StatefulSets'],
  ['deployments', 'Deployments'],
]);

/** Scopes that are not one tenant cluster. @type {ReadonlyMap<string, string>} */
const KINDS = new Map([
  ['*', 'all tenant clusters'],
  ['pods', 'CPU and memory'],
  ['gpus', 'GPUs and dedicated nodes'],
  ['volumes', 'storage'],
  ['load-balancers', 'load balancers'],
  ['workloads', 'instance hours'],
  ['tenant-api', 'private nodes'],
]);

/** Why something was not measured. @param {string} source */
export function causeText(source) {
  return (
    CAUSES.get(source) ?? `The cluster's ${WATCHED.get(source) ?? source} could not be watched`
  );
}

/**
 * Whether a scope is one tenant cluster, rather than a kind of usage of all.
 * @param {string} scope
 */
export function isCluster(scope) {
  return !KINDS.has(scope);
}

/** The readable name of a gap's scope. @param {string} scope @param {Names} names */
export function scopeText(scope, names) {
  return KINDS.get(scope) ?? names.cluster(scope);
}

/**
 * The time and the duration of a gap; `6 h of these 8 h` when it had pauses.
 * @param {any} group of GET /api/v1/gaps
 */
export function gapTime({ open, from, to, seconds }) {
  const all = (Date.parse(to) - Date.parse(from)) / 1000;
  const lasted = duration(seconds);
  const text = lasted === duration(all) ? lasted : `${lasted} of these ${duration(all)}`;
  return open ? `since ${time(from)}, ${text} so far` : `${time(from)} to ${time(to)}, ${text}`;
}
