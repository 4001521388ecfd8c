import { isDeepStrictEqual } from 'node:util';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { Observation } from '../observation/observation.ts';
import type { Span } from '../observation/timeline.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Turn } from '../telemetry/turn.ts';
import type { DueWindow } from './due-windows.ts';
import { type MeasuredOwn, measureOwn } from './measure-own.ts';
import { failed, type FailedScope, type Shared } from './measure-scope.ts';
import type { ScopeState } from './scope.ts';
import { type HeldObjects, isTenant, type TenantScope } from './tenant-scopes.ts';

export interface OwnAheadOptions {
  /** What the window will be measured with. */
  readonly shared: Shared;
  readonly clock: Clock;
  /** How often in a row a scope has failed. */
  readonly attempts: (name: string) => number;
}

/** A tenant cluster whose objects are held, as it was when that began. */
interface HeldScope {
  readonly member: TenantScope;
  readonly objects: HeldObjects;
  readonly progress: ScopeState['progress'];
  readonly learntUntil: number;
  readonly states: readonly Span<TenantCluster>[];
  readonly oldestSample: () => number;
  measured: MeasuredOwn | FailedScope | undefined;
}

/**
 * Tenant clusters with own nodes, measured in short turns before their window is closed: one with thousands of nodes
 * that come and go takes half a second, in which nobody else would have a turn. Until it is released what its API
 * shows waits, so that the window is closed and written as of the one moment at which that began, however fast
 * its objects change.
 */
export class OwnAhead {
  readonly #options: OwnAheadOptions;
  readonly #held: readonly HeldScope[];

  /** Holds those that have nodes of their own. */
  constructor({ members }: DueWindow, options: OwnAheadOptions) {
    this.#options = options;
    const now = options.clock.now();
    this.#held = members.filter(isTenant).map((member) => {
      const { progress, learntUntil, scope, tenant } = member;
      return {
        member,
        objects: tenant.hold(now),
        progress,
        learntUntil,
        states: statesOf(scope.observation),
        oldestSample: scope.observation.usage.follow(),
        measured: undefined,
      };
    });
  }

  /** Measures one object after the other, with time for others after each. */
  async measure(turn: Turn): Promise<void> {
    const { clock, shared, attempts } = this.#options;
    const now = (): number => clock.monotonic() - turn.othersMs;
    for (const held of this.#held) {
      const { member } = held;
      const steps = measureOwn(member, shared, { now, tries: attempts(member.scope.name) });
      try {
        held.measured = await turn.take(steps);
      } catch (error) {
        held.measured = failed(member.scope, error);
      }
    }
  }

  /** What it came to, where that is still what it would come to now. */
  take(member: ScopeState, { window, settings }: Shared): MeasuredOwn | FailedScope | undefined {
    const held = this.#held.find((each) => each.member === member);
    if (held === undefined || !held.objects.isWhole) return undefined;
    const { shared } = this.#options;
    const isSame =
      window.start === shared.window.start &&
      window.end === shared.window.end &&
      member.progress === held.progress &&
      member.learntUntil === held.learntUntil &&
      isDeepStrictEqual(statesOf(member.scope.observation), held.states) &&
      held.oldestSample() >= window.end &&
      isDeepStrictEqual(settings, shared.settings);
    return isSame ? held.measured : undefined;
  }

  /** What has waited is taken in. */
  release(): void {
    for (const { objects } of this.#held) objects.release();
  }
}

/** What is known of the tenant cluster itself, at all times; a copy, since an open span may be closed. */
function statesOf({
  tenantClusters,
}: Pick<Observation, 'tenantClusters'>): readonly Span<TenantCluster>[] {
  return tenantClusters.during(-Infinity, Infinity).map((span) => ({ ...span }));
}
