import { useEffect, useState } from './preact.js';

/**
 * Where the reader is: `#/tenants/acme?range=7d` is page `tenants`, arguments `['acme']`, query `range`.
 * It is all in the fragment, so that every view is a link and nothing of it reaches the server.
 * @typedef {{ page: string, args: string[], query: URLSearchParams }} Place
 */

/** @param {string} hash @returns {Place} */
export function parsePlace(hash) {
  const [path = '', search = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  const [page = '', ...args] = path.split('/').map(decode);
  return { page, args, query: new URLSearchParams(search) };
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
 * A link to a page; empty parameters are left out.
 * @param {string[]} path
 * @param {Record<string, string | undefined>} [query]
 */
export function link(path, query = {}) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== '') search.set(name, value);
  }
  const text = search.toString();
  return `#/${path.map(encodeURIComponent).join('/')}${text === '' ? '' : `?${text}`}`;
}

/** Changes parameters of the page that is open. @param {Record<string, string | undefined>} changes */
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
