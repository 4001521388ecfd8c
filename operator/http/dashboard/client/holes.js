import { useMemo } from './preact.js';
import { useApi, url } from './api.js';
import { isCluster } from './gap-words.js';

const REFRESH_MS = 60_000;

/**
 * Seconds since the epoch; `partly` where only some tenant clusters were not measured.
 * @typedef {{ from: number, to: number, partly: boolean }} Hole
 */

/**
 * When a metric was not measured, for charts: the gaps that bear on it, and all before the first measurement.
 * @param {{ from: string, to: string, tenant?: string | undefined, metric?: string | undefined }} asked
 * @returns {Hole[]}
 */
export function useHoles({ from, to, tenant, metric }) {
  const { data } = useApi(url('/api/v1/gaps', { from, to, tenant, metric }), REFRESH_MS);
  return useMemo(() => (data === undefined ? [] : holesOf(data, tenant)), [data]);
}

/** @param {any} gaps @param {string | undefined} tenant @returns {Hole[]} */
function holesOf({ from, open, ended, measured_since: since }, tenant) {
  const stretches = [...open, ...ended].flatMap(({ scopes, stretches: all }) => {
    const partly = !tenant && scopes.every(isCluster);
    return all.map((/** @type {any} */ one) => ({ ...one, partly }));
  });
  if (since !== undefined && Date.parse(since) > Date.parse(from))
    stretches.push({ from, to: since, partly: false });
  return stretches.map((one) => ({
    from: Date.parse(one.from) / 1000,
    to: Date.parse(one.to) / 1000,
    partly: one.partly,
  }));
}
