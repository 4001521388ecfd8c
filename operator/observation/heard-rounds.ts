import { sameValue } from '../config/immutable.ts';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import { CREATION_STEP_MS } from './sighting.ts';
import type { TenantClusterSnapshot } from './tenant-cluster-snapshot.ts';

/** What a discovery round found. */
export interface HeardRound {
  readonly clusters: readonly TenantCluster[];
  /** When it looked, milliseconds since the epoch. */
  readonly at: number;
}

/** While no window is closed for so long, what came and went before them is forgotten. */
const MOST_ROUNDS = 1_000;

/**
 * The rounds of a process that stands by which the meter's journal does not have yet: a tenant cluster that the meter found and lost again since it last
 * wrote is in no journal, and gone when another process takes over (docs/ledger-format.md#several-replicas).
 */
export class HeardRounds {
  #rounds: readonly HeardRound[] = [];

  add(clusters: readonly TenantCluster[], at: number): void {
    const before = new Map(this.#rounds.at(-1)?.clusters.map((each) => [each.id, each]));
    // A thousand tenant clusters that stay as they are are kept once.
    const shared = clusters.map((each) => {
      const known = before.get(each.id);
      return known !== undefined && sameValue(known, each) ? known : each;
    });
    this.#rounds = [...this.#rounds, { clusters: shared, at }].slice(-MOST_ROUNDS);
  }

  /** The journal has what was found up to then. */
  forget(observedAt: number): void {
    this.#rounds = this.after(observedAt);
  }

  /** Those that looked later than the last one that the journal has; oldest first. */
  after(observedAt: number): readonly HeardRound[] {
    return this.#rounds.filter(({ at }) => at > observedAt);
  }

  /**
   * The same beside what the journal has: without what had gone there. This process may have seen it for some moments more, and what has
   * come anew would be billed from then on in closed windows as well.
   */
  since(observedAt: number, written: TenantClusterSnapshot): readonly HeardRound[] {
    const ends = endsIn(written);
    const isGone = ({ id, createdAt }: TenantCluster): boolean => {
      const end = ends.get(id) ?? Infinity;
      return end < Infinity && createdAt + CREATION_STEP_MS <= end;
    };
    return this.after(observedAt).map(({ clusters, at }) => {
      return { clusters: clusters.filter((cluster) => !isGone(cluster)), at };
    });
  }
}

/** Until when each tenant cluster was there; infinite where it is. */
function endsIn(written: TenantClusterSnapshot): ReadonlyMap<string, number> {
  const ends = new Map<string, number>();
  for (const { cluster, from, to, leaving } of written) {
    const end = leaving === true ? from : (to ?? Infinity);
    ends.set(cluster.id, Math.max(end, ends.get(cluster.id) ?? 0));
  }
  return ends;
}
