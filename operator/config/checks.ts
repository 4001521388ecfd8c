import { invalid, type ParseProblem } from './parsers/parser.ts';

/**
 * What is wrong with a settling delay beside a window size (both in milliseconds): a window must be
 * closed before the next one ends. Each may come from the environment or from a MeteringPolicy, so
 * both layers are checked with this.
 */
export function settlingProblem(
  settlingDelayMs: number,
  windowMs: number,
): ParseProblem | undefined {
  if (settlingDelayMs < windowMs) return undefined;
  return invalid('not shorter than the window', 'shorten the delay or lengthen the window');
}
