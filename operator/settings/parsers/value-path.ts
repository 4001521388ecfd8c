import type { ValuePath } from '../../model/cloud-event-rule.ts';
import { invalid, type Parser, valid } from './parser.ts';

/**
 * The part of JSONPath (RFC 9535) that names at most one value: names and indexes. The schema in
 * crds/ has the same expression, so that the API server refuses other paths. A JSONPath library
 * accepts filters and searches, which would have to be refused again.
 */
const PATH = /^\$(\.[A-Za-z_][A-Za-z0-9_-]*|\[[0-9]{1,4}\]|\['[^'\p{Cc}]+'\])+$/u;
const STEP = /\.([A-Za-z0-9_-]+)|\[([0-9]+)\]|\['([^']+)'\]/g;
const PLAIN_NAME = /^[A-Za-z_][A-Za-z0-9_-]*$/;
const MOST_CHARACTERS = 256;

/** A path such as `$.usage.tokens`, `$['tenant.id']` or `$.items[0]`. */
export function valuePath(): Parser<ValuePath> {
  const fix = "write it as in $.usage.tokens, $['tenant.id'] or $.items[0]";
  return {
    accepts: 'a path',
    parse(text) {
      if (text.length > MOST_CHARACTERS || !PATH.test(text)) return invalid('not a path', fix);
      const steps = text.matchAll(STEP);
      return valid([...steps].map(([, name, index, quoted]) => name ?? quoted ?? Number(index)));
    },
  };
}

/** The text of a path. */
export function pathText(path: ValuePath): string {
  const steps = path.map((step) => {
    if (typeof step === 'number') return `[${step}]`;
    return PLAIN_NAME.test(step) ? `.${step}` : `['${step}']`;
  });
  return `$${steps.join('')}`;
}
