import { useEffect, useState } from './preact.js';

/**
 * Where the reader is: `#/tenants/acme?range=7d` is page `tenants`, arguments `['acme']`, query
 * `range`. `#/@berlin/usage` is the same of one cluster of a fleet. It is all in the fragment, so
 * that every view is a link and nothing of it reaches the server.
 * @typedef {{ cluster?: string, page: string, args: string[], query: URLSearchParams }} Place
 */

/** @param {string} hash @returns {Place} */
export function parsePlace(hash) {
  const [path = '', search = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  const parts = path.split('/');
  const cluster = parts[0]?.startsWith('@') ? decode(parts.shift() ?? '').slice(1) : undefined;
  const [page = '', ...args] = parts.map(decode);
  const query = new URLSearchParams(search);
  return { ...(cluster === undefined ? {} : { cluster }), page, args, query };
}

/** The shown cluster of a fleet; undefined for all clusters, and without a fleet. */
export function shownCluster() {
  return parsePlace(location.hash).cluster;
}

/** @param {string} part */
function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/**
 * A link to a page, of the shown cluster unless another is named. Empty parameters are left out.
 * @param {string[]} path
 * @param {Record<string, string | undefined>} [query]
 * @param {string} [cluster] empty for all
 */
export function link(path, query = {}, cluster = shownCluster()) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== '') search.set(name, value);
  }
  const text = search.toString();
  const of = cluster ? `@${encodeURIComponent(cluster)}/` : '';
  return `#/${of}${path.map(encodeURIComponent).join('/')}${text === '' ? '' : `?${text}`}`;
}

/**
 * Changes parameters of the page that is open.
 * @param {Record<string, string | undefined>} changes
 */
export function setQuery(changes) {
  const { page, args, query } = parsePlace(location.hash);
  location.replace(link([page, ...args], { ...Object.fromEntries(query), ...changes }));
}

/** @returns {Place} */
export function usePlace() {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const follow = () => setHash(location.hash);
    addEventListener('hashchange', follow);
    return () => removeEventListener('hashchange', follow);
  }, []);
  return parsePlace(hash);
}
