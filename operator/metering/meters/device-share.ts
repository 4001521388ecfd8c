import { UNITS_PER_GPU } from '../../model/gpu-units.ts';
import type { AllocatedDevice } from '../timelines/resource-claim.ts';
import type { Holders } from './device-holders.ts';

/** Which part of its device a claim holds. */
export interface DeviceShare {
  /** The part of what the whole device comes to. */
  of(complete: bigint): bigint;
  /** How it came about, for explanations; absent where the device is held whole. */
  readonly by?: string;
}

type Amounts = ReadonlyMap<string, bigint>;

/** A part of a device, `used` of `all`. */
interface Measure {
  readonly used: bigint;
  readonly all: bigint;
  /** What was measured; absent where nothing was. */
  readonly name?: string;
}

const COMPLETE: DeviceShare = { of: (complete) => complete };

/**
 * What a claim's share of a device counts for (docs/explanation/gpus.md#shared-devices): what it consumes of
 * the device's memory, else of its `shares`, else of its first other capacity, each only where that is
 * more than nothing; without any all that hold the device count for the same. Where its holders come
 * to more than the device, each is cut by the same factor, so that a device never counts for more than
 * one.
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
  const how = name === undefined ? `split evenly among ${count}` : `${name} that it consumes`;
  if (atLeast <= UNITS_PER_GPU) return { of: (complete) => (complete * used) / all, by: how };
  return {
    of: (complete) => (complete * used * UNITS_PER_GPU) / (all * atMost),
    by: `${how}, cut because its holders come to more than the device`,
  };
}

/** What all holders of a device come to, in parts, rounded down and up. */
interface Total {
  readonly capacity: Amounts | undefined;
  readonly atLeast: bigint;
  readonly atMost: bigint;
}

/** Reckoned once for all holders of a device. */
const totals = new WeakMap<Holders, Total>();

function totalOf(holders: Holders, capacity: Amounts | undefined): Total {
  const known = totals.get(holders);
  if (known !== undefined && known.capacity === capacity) return known;
  const measures = holders.map((holder) => measureOf(holder, capacity, holders.length));
  const sum = (part: (measure: Measure) => bigint): bigint =>
    measures.reduce((total, measure) => total + part(measure), 0n);
  const total = {
    capacity,
    atLeast: sum(({ used, all }) => (UNITS_PER_GPU * used) / all),
    atMost: sum(({ used, all }) => (UNITS_PER_GPU * used + all - 1n) / all),
  };
  totals.set(holders, total);
  return total;
}

/** Never more than the device. */
function measureOf(
  { consumed = new Map() }: AllocatedDevice,
  capacity: Amounts | undefined,
  holders: number,
): Measure {
  const evenly = { used: 1n, all: BigInt(Math.max(1, holders)) };
  const names = [...consumed.keys()].filter(
    (name) => (consumed.get(name) ?? 0n) > 0n && (capacity?.get(name) ?? 0n) > 0n,
  );
  const name = names.find(named('memory')) ?? names.find(named('shares')) ?? names[0];
  if (name === undefined) return evenly;
  const [used, all] = [consumed.get(name) ?? 0n, capacity?.get(name) ?? 0n];
  return { used: used < all ? used : all, all, name };
}

/** A name without a domain is one of the driver's own. */
function named(plain: string): (name: string) => boolean {
  return (name) => name === plain || name.endsWith(`/${plain}`);
}
