import { parseQuantity } from '../kubernetes/quantity.ts';
import type { RawObject } from '../kubernetes/source.ts';

/** Nano-units of the quantity at a key; undefined when it is absent, malformed or negative. */
export function amountAt(parent: RawObject, key: string): bigint | undefined {
  const outcome = parseQuantity(parent[key]);
  if (outcome.kind === 'invalid' || outcome.nano < 0n) return undefined;
  return outcome.nano;
}
