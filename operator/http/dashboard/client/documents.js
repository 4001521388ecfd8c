import { link } from './location.js';

/**
 * Pages of the documentation are named by their path in `docs/`; those at the top of the repository
 * are in the folder `repository` there.
 */
const TOP = 'repository/';

/**
 * The link to a page of the documentation.
 * @param {string} page
 * @param {string} [at] a heading's anchor
 */
export function documentPlace(page, at) {
  return link(['docs', ...page.split('/')], { at });
}

/**
 * The link for a citation of the API, such as `docs/explanation/gpus.md#gpu-quantity`.
 * @param {string} citation
 */
export function citedPlace(citation) {
  return placeFrom(`${TOP}README.md`, citation) ?? documentPlace('README.md');
}

/**
 * The link for a target on a page; undefined when the target is not a page of the documentation.
 * @param {string} page that the link is on
 * @param {string} target as it is written there
 */
export function placeFrom(page, target) {
  const [path = '', at] = target.split('#', 2);
  if (path === '') return documentPlace(page, at);
  const file = page.startsWith(TOP) ? page.slice(TOP.length) : `docs/${page}`;
  const { pathname } = new URL(path, `http://repository/${file}`);
  if (!/\.(md|yaml)$/.test(pathname)) return undefined;
  return documentPlace(
    pathname.startsWith('/docs/') ? pathname.slice('/docs/'.length) : `${TOP}${pathname.slice(1)}`,
    at,
  );
}
