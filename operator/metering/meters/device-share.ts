import { UNITS_PER_GPU } from '../../model/gpu-units.ts';
import type { AllocatedDevice } from '../timelines/resource-claim.ts';
import type { Holders } from './device-holders.ts';

/** A claim's part of a device. */
export interface DeviceShare {
  /** Returns the part of an amount that the complete device counts for. */
  of(complete: bigint): bigint;
  /** Why it is this part, for explanations; absent where the claim has the complete device. */
  readonly by?: string;
}

type Amounts = ReadonlyMap<string, bigint>;

/** A part of a device, `used` of `all`. */
interface DevicePart {
  readonly used: bigint;
  readonly all: bigint;
  /** Name of the measured capacity; absent where none was measured. */
  readonly name?: string;
}

const COMPLETE: DeviceShare = { of: (complete) => complete };

/**
 * Returns a claim's part of a device (docs/explanation/gpus.md#shared-devices).
 * 1. What it consumes of the device's memory, else of its `shares`, else of its first other
 *    capacity; zeros do not count.
 * 2. Without any capacity, all shares count alike.
 * 3. If the shares sum to more than the device, each is scaled down by the same factor.
 */
export function shareOf(
  allocated: AllocatedDevice,
  capacity: Amounts | undefined,
  holders: Holders,
): DeviceShare {
  if (allocated.share === undefined) return COMPLETE;
  const count = Math.max(1, holders.length);
  const { used, all, name } = measureOf(allocated, capacity, count);
  const { atLeast, atMost } = totalOf(holders, capacity);
  const how = name === undefined ? `split evenly among ${count}` : `${name} consumed`;
  if (atLeast <= UNITS_PER_GPU) return { of: (complete) => (complete * used) / all, by: how };
  return {
    of: (complete) => (complete * used * UNITS_PER_GPU) / (all * atMost),
    by: `${how}, scaled down because all shares exceed the device`,
  };
}

/** The sum of all shares of a device in {@link UNITS_PER_GPU}, rounded down and up. */
interface Total {
  readonly capacity: Amounts | undefined;
  readonly atLeast: bigint;
  readonly atMost: bigint;
}

/** Computed once for all shares of a device. */
const totals = new WeakMap<Holders, Total>();

function totalOf(holders: Holders, capacity: Amounts | undefined): Total {
  const known = totals.get(holders);
  if (known !== undefined && known.capacity === capacity) return known;
  const measures = holders.map((holder) => measureOf(holder, capacity, holders.length));
  const sum = (part: (measure: DevicePart) => bigint): bigint =>
    measures.reduce((total, measure) => total + part(measure), 0n);
  const total = {
    capacity,
    atLeast: sum(({ used, all }) => (UNITS_PER_GPU * used) / all),
    atMost: sum(({ used, all }) => (UNITS_PER_GPU * used + all - 1n) / all),
  };
  totals.set(holders, total);
  return total;
}

/** Measures one share, at most the complete device. */
function measureOf(
  { consumed = new Map() }: AllocatedDevice,
  capacity: Amounts | undefined,
  holders: number,
): DevicePart {
  const evenly = { used: 1n, all: BigInt(Math.max(1, holders)) };
  const names = [...consumed.keys()].filter(
    (name) => (consumed.get(name) ?? 0n) > 0n && (capacity?.get(name) ?? 0n) > 0n,
  );
  const name = names.find(named('memory')) ?? names.find(named('shares')) ?? names[0];
  if (name === undefined) return evenly;
  const [used, all] = [consumed.get(name) ?? 0n, capacity?.get(name) ?? 0n];
  return { used: used < all ? used : all, all, name };
}

/** Matches a name with any domain. A name without a domain is the driver's own. */
function named(plain: string): (name: string) => boolean {
  return (name) => name === plain || name.endsWith(`/${plain}`);
}
