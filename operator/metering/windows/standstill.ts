import type { QueuedArrivals } from '../../kubernetes/live-view.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { TimeSlice } from '../../telemetry/time-slice.ts';
import type { ScopeState, WatchPoint } from './scope.ts';
import type { Scopes } from './scopes.ts';
import { type RetainedObjects, isTenant } from './tenant-scopes.ts';

/**
 * A time in which the known state of objects does not change, so that it can be measured and
 * written in slices. Until {@link release}, everything waits that the watches of this cluster and
 * of some tenant clusters deliver.
 */
export class Standstill {
  /** Where each watch of this cluster can be resumed after this state. */
  readonly points: Readonly<Record<string, WatchPoint>>;
  readonly #arrivals: QueuedArrivals;
  readonly #tenants: ReadonlyMap<ScopeState, RetainedObjects>;

  constructor(
    members: readonly ScopeState[],
    options: {
      readonly scopes: Pick<Scopes, 'watchPoints'>;
      readonly arrivals: QueuedArrivals;
      readonly clock: Clock;
    },
  ) {
    const { scopes, arrivals, clock } = options;
    const now = clock.now();
    this.points = scopes.watchPoints(now);
    this.#arrivals = arrivals;
    arrivals.begin();
    const tenants = members.filter(isTenant);
    this.#tenants = new Map(tenants.map((member) => [member, member.tenant.retain(now)]));
  }

  /** False for a tenant cluster whose objects had to change, as when its API is not used now. */
  isUnchanged(member: ScopeState): boolean {
    return this.#tenants.get(member)?.isComplete !== false;
  }

  async release(slice: TimeSlice): Promise<void> {
    for (const retained of this.#tenants.values()) retained.release();
    await this.#arrivals.releaseInSlices(slice);
  }
}
