import type { QueuedArrivals } from '../../kubernetes/live-view.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { TimeSlice } from '../../telemetry/time-slice.ts';
import type { ScopeState, WatchPoint } from './scope.ts';
import type { Scopes } from './scopes.ts';
import { type RetainedObjects, isTenant } from './tenant-scopes.ts';

/**
 * A time in which nothing changes what is known of objects, so that they can be measured and written in turns: what the
 * watches of this cluster and of the APIs of some tenant clusters bring waits until {@link release}.
 */
export class Standstill {
  /** Where each watch of this cluster can be resumed by what is known in it. */
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

  /** False for a tenant cluster whose objects had to change all the same, as where its API is left alone from now on. */
  isWhole(member: ScopeState): boolean {
    return this.#tenants.get(member)?.isComplete !== false;
  }

  async release(turn: TimeSlice): Promise<void> {
    for (const held of this.#tenants.values()) held.release();
    await this.#arrivals.releaseInSlices(turn);
  }
}
