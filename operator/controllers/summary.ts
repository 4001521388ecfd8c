import { type ConditionClaim, CONDITION_TYPES, SILENT } from './conditions.ts';

/**
 * Most characters. kubectl cuts no column, and a row of the widest kind should fit into about 120
 * columns.
 */
const LONGEST = 72;

/**
 * Returns the state of an object in one line: `OK`, or the worst condition with its cause. An
 * example is `PricesDiffer: other prices than the PriceBooks (+1 more)`. It contains no moving
 * counters, so that it changes as rarely as the conditions
 * (docs/reference/troubleshooting.md#conditions).
 */
export function summaryOf(claims: readonly ConditionClaim[]): string {
  const wrong = claims.filter(isWrong).toSorted((a, b) => rankOf(a) - rankOf(b));
  const [worst] = wrong;
  if (worst === undefined) return 'OK';
  const { type, reason, message, brief = message } = worst;
  const name = type === 'Ready' ? reason : type;
  const more = wrong.length === 1 ? '' : ` (+${wrong.length - 1} more)`;
  const [cause = ''] = brief.split('; ', 1);
  return cut(`${name}: ${cause}`, LONGEST - more.length) + more;
}

function isWrong({ type, status, reason }: ConditionClaim): boolean {
  if (SILENT.has(type)) return false;
  // In force without effect, for example because of a misspelled name in spec.match.
  if (reason === 'NothingMatched') return true;
  const isGood = type === 'Ready' ? 'True' : 'False';
  return status !== isGood;
}

function rankOf({ type }: ConditionClaim): number {
  return CONDITION_TYPES.indexOf(type);
}

/** Cuts between characters, never inside one. */
function cut(text: string, longest: number): string {
  const characters = Array.from(text);
  return characters.length <= longest ? text : `${characters.slice(0, longest - 1).join('')}…`;
}
