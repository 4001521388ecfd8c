/** More than the times of two windows, which is all that a batch of events has. */
const MOST_REMEMBERED = 64;

/**
 * Returns `compute` with a cache of its last results by argument. The events of a window share
 * their times.
 */
export function rememberLast<T, K extends string | number = string>(
  compute: (key: K) => T,
  most = MOST_REMEMBERED,
): (key: K) => T {
  const known = new Map<K, T>();
  return (key) => {
    const found = known.get(key);
    if (found !== undefined) return found;
    if (known.size >= most) known.clear();
    const computed = compute(key);
    known.set(key, computed);
    return computed;
  };
}
