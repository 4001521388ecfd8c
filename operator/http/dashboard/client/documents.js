import { link } from './location.js';

/**
 * Pages of the documentation are named by their path in `docs/`; those at the top of the repository are in the
 * folder `repository` there.
 */
const TOP = 'repository/';

/** Where a page of the documentation opens. @param {string} page @param {string} [at] a heading's anchor */
export function documentPlace(page, at) {
  return link(['docs', ...page.split('/')], { at });
}

/** `docs/explanation/gpus.md#gpu-quantity`, as the API and comments cite it, as it opens here. @param {string} citation */
export function citedPlace(citation) {
  return placeFrom(`${TOP}README.md`, citation) ?? documentPlace('README.md');
}

/**
 * Where a link of a page leads; undefined where that is no page.
 * @param {string} page that the link is on @param {string} target as it is written there
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
