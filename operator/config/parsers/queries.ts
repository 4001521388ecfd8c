import { readQueryTemplate } from '../query-template.ts';
import { invalid, type Parser, valid } from './parser.ts';

const LONGEST = 8_192;

/** A PromQL template (spec appendix, EGRESS_QUERY); `none` switches the query off. */
export function queryTemplate(): Parser<string> {
  return {
    accepts: 'a PromQL template; `none` switches it off',
    parse(text) {
      if (text === '') return invalid('blank', 'give a query, or none to switch it off');
      if (text.length > LONGEST) return invalid('too long', `at most ${LONGEST} characters`);
      const template = readQueryTemplate(text);
      if (template.kind === 'template') return valid(text);
      return invalid(template.what, template.mend, template.input);
    },
  };
}
