import { greatest, least } from '../../model/extremes.ts';
import type { AllocatedDevice, ClaimAllocation } from '../timelines/resource-claim.ts';
import { keyOf } from '../timelines/shared-values.ts';
import { type Span, splitAtEdges } from '../timelines/timeline.ts';

/** What claims hold of one device at a time; nothing of one that a single claim has for itself. */
export type Holders = readonly AllocatedDevice[];

/** A stretch in which the same claims held a device; milliseconds since the epoch. */
export interface Holding {
  readonly from: number;
  readonly to: number;
  readonly holders: Holders;
}

/** Devices that several claims may hold, each with all that was held of it, in order. */
export type Holdings = ReadonlyMap<string, readonly Holding[]>;

/** Gathers what is held of every device that several claims may hold. */
export function holdingsOf(
  spans: readonly Span<{ readonly allocation: ClaimAllocation }>[],
): Holdings {
  const held = new Map<string, Span<AllocatedDevice>[]>();
  for (const { from, to, state } of spans) {
    for (const device of state.allocation.devices) {
      if (device.share === undefined) continue;
      const key = deviceKey(device);
      const known = held.get(key) ?? [];
      known.push({ from, to, state: device });
      held.set(key, known);
    }
  }
  return new Map([...held].map(([key, parts]) => [key, stretchesOf(parts)]));
}

/** Those of a device that lie in `[from, to)`, in part or whole. */
export function holdingsWithin(
  holdings: Holdings,
  device: AllocatedDevice,
  from: number,
  to: number,
): readonly Holding[] {
  if (device.share === undefined) return [];
  const all = holdings.get(deviceKey(device)) ?? [];
  return all.filter((one) => one.from < to && one.to > from);
}

/** Who holds the device at a moment. */
export function holdersAt(stretches: readonly Holding[], at: number): Holders {
  return stretches.find(({ from, to }) => from <= at && at < to)?.holders ?? [];
}

/** True when both split the device alike. */
export function sameHolders(a: Holders, b: Holders): boolean {
  return a === b || keyOf(a.map(consumedKey)) === keyOf(b.map(consumedKey));
}

function stretchesOf(parts: readonly Span<AllocatedDevice>[]): readonly Holding[] {
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
