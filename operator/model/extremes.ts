/**
 * The smallest number, Infinity for none. `Math.min(...numbers)` would put them on the stack, which
 * a hundred thousand overflow.
 */
export function least(numbers: Iterable<number>): number {
  let extreme = Infinity;
  for (const number of numbers) extreme = Math.min(extreme, number);
  return extreme;
}

/** The largest number, -Infinity for none. */
export function greatest(numbers: Iterable<number>): number {
  let extreme = -Infinity;
  for (const number of numbers) extreme = Math.max(extreme, number);
  return extreme;
}
