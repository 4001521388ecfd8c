const FIRST_BOUND_MS = 1_000;
const LARGEST_BOUND_MS = 300_000;
/** Beyond this the bound has long reached its maximum. */
const LARGEST_EXPONENT = 20;

/**
 * How long to wait after the n-th failure in a row (n from 1), milliseconds: anything between nothing
 * and a bound that doubles from 1 s to 5 minutes ("full jitter", design 10), so that many senders do
 * not come back at once. `random` gives numbers in [0, 1).
 */
export function backoffMs(failures: number, random: () => number): number {
  const bound = FIRST_BOUND_MS * 2 ** Math.min(failures - 1, LARGEST_EXPONENT);
  return Math.round(random() * Math.min(LARGEST_BOUND_MS, bound));
}
