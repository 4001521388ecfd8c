import type { ParseProblem } from './parsers/parser.ts';
import { maskUrl } from './parsers/urls.ts';
import type { Variable } from './variables/variable.ts';

const LONGEST_QUOTE = 200;

/** `NAME: what is wrong: "value"; how to mend it`. The input must already be fit to be shown. */
export function problemText(name: string, problem: ParseProblem, input: string): string {
  const shown = problem.input ?? input;
  const cut = shown.length > LONGEST_QUOTE ? `${shown.slice(0, LONGEST_QUOTE)}…` : shown;
  return `${name}: ${problem.what}: ${JSON.stringify(cut)}; ${problem.mend}`;
}

/** A variable's text as it may be shown: never a credential. */
export function shownText(variable: Variable, text: string): string {
  if (variable.shown === 'masked') return '***';
  return variable.shown === 'url' ? maskUrl(text) : text;
}
