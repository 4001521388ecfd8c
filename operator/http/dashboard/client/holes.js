import { useMemo } from './preact.js';
import { useApi, url } from './api.js';
import { isCluster } from './gap-words.js';

const REFRESH_MS = 60_000;

/**
 * A time without measurements, in seconds since the epoch. `before`: before metering began. `all`
 * and `some`: a gap of all or of some tenant clusters.
 * @typedef {{ from: number, to: number, kind: 'before' | 'all' | 'some' }} Hole
 */

/** The names of holes: `name` in a legend, `note` at a step of a chart. */
export const HOLE_WORDS = {
  before: { name: 'before metering began', note: 'before metering began' },
  all: { name: 'not measured', note: 'not all measured' },
  some: { name: 'some tenant clusters not measured', note: 'not all measured' },
};

/**
 * The times when a metric was not measured, for charts. `error` when they cannot be read.
 * @param {{ from: string, to: string, tenant?: string | undefined, metric?: string | undefined }}
 *   selection
 * @returns {{ holes: Hole[], error: import('./api.js').ApiError | undefined }}
 */
export function useHoles({ from, to, tenant, metric }) {
  const { data, error } = useApi(url('/api/v1/gaps', { from, to, tenant, metric }), REFRESH_MS);
  const holes = useMemo(() => (data === undefined ? [] : holesOf(data, tenant)), [data]);
  return { holes, error };
}

/** @param {any} gaps @param {string | undefined} tenant @returns {Hole[]} */
function holesOf(gaps, tenant) {
  const stretches = [...gaps.open, ...gaps.ended].flatMap(({ scopes, stretches: all }) => {
    const kind = !tenant && scopes.every(isCluster) ? 'some' : 'all';
    return all.map((/** @type {any} */ one) => ({ ...one, kind }));
  });
  return [...unknownBefore(gaps), ...stretches].map(({ from, to, kind }) => ({
    from: Date.parse(from) / 1000,
    to: Date.parse(to) / 1000,
    kind,
  }));
}

/**
 * The part of a range that lies before metering began, at most one.
 * @param {any} range of an answer with `measured_since`
 */
export function unknownBefore({ from, to, measured_since: since = to }) {
  const end = Date.parse(since) < Date.parse(to) ? since : to;
  return Date.parse(end) > Date.parse(from) ? [{ from, to: end, kind: 'before' }] : [];
}

/**
 * The notes of all holes that overlap a step, each once.
 * @param {Hole[]} holes
 * @param {number} at
 * @param {number} step seconds
 */
export function notesOf(holes, at, step) {
  const inside = holes.filter(({ from, to }) => from < at + step && to > at);
  return [...new Set(inside.map(({ kind }) => HOLE_WORDS[kind].note))];
}

/**
 * Whether no tenant cluster was measured in a step.
 * @param {Hole[]} holes
 * @param {number} at
 * @param {number} step seconds
 */
export function isUnknown(holes, at, step) {
  return holes.some(({ from, to, kind }) => kind !== 'some' && from <= at && to >= at + step);
}
