/**
 * The least of some numbers, Infinity of none. `Math.min(...numbers)` takes them as arguments on the
 * stack, which a list of a hundred thousand overflows.
 */
export function least(numbers: Iterable<number>): number {
  let extreme = Infinity;
  for (const number of numbers) extreme = Math.min(extreme, number);
  return extreme;
}

/** The greatest of some numbers, -Infinity of none. */
export function greatest(numbers: Iterable<number>): number {
  let extreme = -Infinity;
  for (const number of numbers) extreme = Math.max(extreme, number);
  return extreme;
}
