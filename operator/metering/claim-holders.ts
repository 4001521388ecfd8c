import type { AllocatedDevice, ClaimAllocation } from '../observation/resource-claim.ts';
import type { Span } from '../observation/timeline.ts';

/** What holds devices during a span. */
interface Holding {
  readonly allocation: ClaimAllocation;
}

/** A span in which the number of claims that hold each device does not change, in the order of the allocation. */
type Held<S> = Span<S & { readonly holders: readonly number[] }>;

interface Interval {
  readonly from: number;
  readonly to: number;
}

/** Devices that several claims may hold, each with the times at which some claim did. */
type Holdings = ReadonlyMap<string, readonly Interval[]>;

/**
 * Cuts the spans of claims where the number of claims that hold one of their devices changes. By it
 * a device without capacities to go by is split evenly, so that it counts once.
 */
export function withHolders<K, S extends Holding>(
  claims: ReadonlyMap<K, readonly Span<S>[]>,
): ReadonlyMap<K, readonly Held<S>[]> {
  const holdings = holdingsOf([...claims.values()].flat());
  return new Map(
    [...claims].map(([claim, spans]) => [claim, spans.flatMap((span) => split(span, holdings))]),
  );
}

function holdingsOf(spans: readonly Span<Holding>[]): Holdings {
  const holdings = new Map<string, Interval[]>();
  for (const { from, to, state } of spans) {
    for (const device of state.allocation.devices) {
      if (device.share === undefined) continue;
      const key = deviceKey(device);
      const known = holdings.get(key) ?? [];
      known.push({ from, to });
      holdings.set(key, known);
    }
  }
  return holdings;
}

function split<S extends Holding>(
  { from, to, state }: Span<S>,
  holdings: Holdings,
): readonly Held<S>[] {
  const { devices } = state.allocation;
  const shared = devices.map((device) =>
    device.share === undefined ? [] : (holdings.get(deviceKey(device)) ?? []),
  );
  const edges = shared.flat().flatMap((holding) => [holding.from, holding.to]);
  const inside = edges.filter((edge) => edge > from && edge < to);
  const cuts = [from, ...new Set(inside.toSorted((a, b) => a - b))];
  return cuts.map((cut, index) => ({
    from: cut,
    to: cuts[index + 1] ?? to,
    state: { ...state, holders: shared.map((holders) => Math.max(1, countAt(holders, cut))) },
  }));
}

function countAt(intervals: readonly Interval[], at: number): number {
  return intervals.filter(({ from, to }) => from <= at && at < to).length;
}

function deviceKey({ driver, pool, device }: AllocatedDevice): string {
  return `${driver} ${pool} ${device}`;
}
