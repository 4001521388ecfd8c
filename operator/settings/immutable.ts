import { Secret } from '../model/secret.ts';

/** Freezes a settings value with everything inside it. Maps stay as their type allows. */
export function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null) return value;
  for (const inner of Object.values(value)) deepFreeze(inner);
  return Object.freeze(value);
}

/**
 * Whether two values are equal, credentials included. A field that is undefined equals one that is absent, as in a
 * value that was written as JSON and read again. The order of lists counts.
 */
export function sameValue(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (a instanceof Secret || b instanceof Secret) {
    return a instanceof Secret && b instanceof Secret && a.equals(b);
  }
  if (a instanceof Map || b instanceof Map) {
    return a instanceof Map && b instanceof Map && sameValue([...a], [...b]);
  }
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const [left, right] = [a as Fields, b as Fields];
  const names = namesOf(left);
  return (
    names.length === namesOf(right).length &&
    names.every((name) => Object.hasOwn(right, name) && sameValue(left[name], right[name]))
  );
}

type Fields = Readonly<Record<string, unknown>>;

function namesOf(fields: Fields): readonly string[] {
  return Object.keys(fields).filter((name) => fields[name] !== undefined);
}
