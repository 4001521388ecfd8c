import type { ParseProblem } from './parsers/parser.ts';
import { maskUrl } from './parsers/urls.ts';
import { quote } from '../model/quote.ts';
import type { Variable } from './variables/variable.ts';

/** `NAME: what is wrong: "value"; how to mend it`. The input must already be fit to be shown. */
export function problemText(name: string, problem: ParseProblem, input: string): string {
  return `${name}: ${problem.what}: ${quote(problem.input ?? input)}; ${problem.mend}`;
}

/** A variable's text as it may be shown: never a credential. */
export function shownText(variable: Variable, text: string): string {
  if (variable.shown === 'masked') return '***';
  return variable.shown === 'url' ? maskUrl(text) : text;
}
