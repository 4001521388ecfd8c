import { greatest, least } from '../../model/extremes.ts';
import type { AllocatedDevice, ClaimAllocation } from '../timelines/resource-claim.ts';
import { keyOf } from '../timelines/shared-values.ts';
import { type Span, splitAtEdges } from '../timelines/timeline.ts';

/** The shares of one device at a moment; empty for a device that a single claim has alone. */
export type Holders = readonly AllocatedDevice[];

/** A stretch in which the same claims shared a device; milliseconds since the epoch. */
export interface HolderStretch {
  readonly from: number;
  readonly to: number;
  readonly holders: Holders;
}

/** All shares of each device that several claims can share, in order of time. */
export type HoldersByDevice = ReadonlyMap<string, readonly HolderStretch[]>;

/** Collects the shares of every device that several claims can share. */
export function holdersByDevice(
  spans: readonly Span<{ readonly allocation: ClaimAllocation }>[],
): HoldersByDevice {
  const byDevice = new Map<string, Span<AllocatedDevice>[]>();
  for (const { from, to, state } of spans) {
    for (const device of state.allocation.devices) {
      if (device.share === undefined) continue;
      const key = deviceKey(device);
      const known = byDevice.get(key) ?? [];
      known.push({ from, to, state: device });
      byDevice.set(key, known);
    }
  }
  return new Map([...byDevice].map(([key, parts]) => [key, stretchesOf(parts)]));
}

/** Returns the stretches of a device that overlap `[from, to)`. */
export function holdersWithin(
  holdings: HoldersByDevice,
  device: AllocatedDevice,
  from: number,
  to: number,
): readonly HolderStretch[] {
  if (device.share === undefined) return [];
  const all = holdings.get(deviceKey(device)) ?? [];
  return all.filter((one) => one.from < to && one.to > from);
}

/** Returns the shares of a device at a moment. */
export function holdersAt(stretches: readonly HolderStretch[], at: number): Holders {
  return stretches.find(({ from, to }) => from <= at && at < to)?.holders ?? [];
}

/** True when both split the device alike. */
export function sameHolders(a: Holders, b: Holders): boolean {
  return a === b || keyOf(a.map(consumedKey)) === keyOf(b.map(consumedKey));
}

function stretchesOf(parts: readonly Span<AllocatedDevice>[]): readonly HolderStretch[] {
  const from = least(parts.map((part) => part.from));
  const to = greatest(parts.map((part) => part.to));
  return splitAtEdges(from, to, parts).map(([start, end]) => ({
    from: start,
    to: end,
    holders: parts
      .filter((part) => part.from <= start && start < part.to)
      .map(({ state }) => state),
  }));
}

function consumedKey({ consumed = new Map() }: AllocatedDevice): string {
  return keyOf([...consumed].flatMap(([name, amount]) => [name, String(amount)]));
}

function deviceKey({ driver, pool, device }: AllocatedDevice): string {
  return keyOf([driver, pool, device]);
}
