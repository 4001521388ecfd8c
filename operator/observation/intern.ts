/** Gives equal values one identity, so that a hundred thousand pods of a few shapes cost little memory. */
export type Intern<T> = (key: string, make: () => T) => T;

const DEFAULT_LIMIT = 50_000;

/**
 * A pool of shared immutable values by key. It is an economy only: a full pool is emptied and
 * equal values may then exist twice, so nothing may depend on identity for being right.
 */
export function createIntern<T>(limit = DEFAULT_LIMIT): Intern<T> {
  let pool = new Map<string, T>();
  return (key, make) => {
    const known = pool.get(key);
    if (known !== undefined) return known;
    if (pool.size >= limit) pool = new Map();
    const value = make();
    pool.set(key, value);
    return value;
  };
}
