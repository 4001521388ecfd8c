import { invalid, type Parser, valid } from './parser.ts';

/** Filled with names of tenants, so they may only stand where the value can be quoted (security D.7). */
const NAMES = new Set(['namespace', 'vcluster', 'instance', 'project', 'tenant', 'tenant_cluster']);
/** Filled with figures of the operator's own. */
const FIGURES = new Set(['window', 'window_seconds']);

const LONGEST = 8_192;
const PIECES = /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`|\{\{[^{}]*\}\}|["'`]/g;
const PLACEHOLDER = /\{\{\s*([^{}]*?)\s*\}\}/g;

/**
 * A PromQL template (spec appendix, EGRESS_QUERY); `none` switches the query off. Placeholders for
 * names are accepted only between double quotes, where their values can be escaped.
 */
export function queryTemplate(): Parser<string> {
  const known = [...NAMES, ...FIGURES].map((name) => `{{${name}}}`).join(' ');
  return {
    accepts: 'a PromQL template; `none` switches it off',
    parse(text) {
      if (text === '') return invalid('blank', 'give a query, or none to switch it off');
      if (text.length > LONGEST) return invalid('too long', `at most ${LONGEST} characters`);
      for (const [piece] of text.matchAll(PIECES)) {
        if (piece.length === 1) return invalid('an open quote', 'close it', piece);
        for (const [placeholder, name = ''] of piece.matchAll(PLACEHOLDER)) {
          if (!NAMES.has(name) && !FIGURES.has(name)) {
            return invalid('unknown placeholder', `use ${known}`, placeholder);
          }
          if (NAMES.has(name) && !piece.startsWith('"')) {
            return invalid('placeholder outside double quotes', 'write "…" around it', placeholder);
          }
        }
      }
      return valid(text);
    },
  };
}
