import type { Projected, SourceHealth, SourceState } from '../../kubernetes/source.ts';
import type { Meter } from '../meters/meter.ts';
import type { LoadBalancerView, VolumeClaimView } from '../timelines/retained-objects.ts';
import type { NodeView } from '../timelines/node.ts';
import type { ObservationReader } from '../timelines/observation.ts';
import type { PodView } from '../timelines/pod.ts';
import type { Progress } from './schedule.ts';

/** The part of a watch that the collector needs. */
export interface WatchedSource<T extends Projected = Projected> {
  readonly resource: { readonly plural: string; readonly namespace?: string };
  /** One watch for each namespace with WATCH_NAMESPACES. */
  readonly members?: readonly WatchedSource<T>[];
  health(): SourceHealth;
  ready(signal: AbortSignal): Promise<void>;
  find(namespace: string, name: string): T | undefined;
  resourceVersion(): string | undefined;
}

/** The watches, one for each kind; workloads have two. No window waits for Namespaces. */
export interface CollectorSources {
  readonly pods: WatchedSource<PodView>;
  readonly nodes: WatchedSource<NodeView>;
  readonly resourceClaims: WatchedSource;
  readonly resourceSlices: WatchedSource;
  readonly volumes: WatchedSource<VolumeClaimView>;
  readonly loadBalancers: WatchedSource<LoadBalancerView>;
  readonly workloads: readonly WatchedSource[];
  readonly namespaces: WatchedSource;
}

/** Where a watch can be resumed, and until when its view is confirmed. */
export interface WatchPoint {
  readonly resourceVersion?: string;
  /** Milliseconds since the epoch. */
  readonly knownAt: number;
}

/**
 * Everything that is measured from the same watches and therefore closed together. A scope whose
 * watch failed waits while the others continue. No window of it is ever metered by half
 * (docs/explanation/metering.md#windows).
 */
export interface Scope {
  /** A `MeterScope`, or `tenant-api/<tenant cluster>`. */
  readonly name: string;
  readonly meters: readonly Meter[];
  /** What its meters read. Only its own timelines may stand for closed windows. */
  readonly observation: ObservationReader;
  /** The timelines that it settles; no other scope settles them. */
  readonly timelines: readonly {
    settle(end: number): void;
  }[];
  /** Set if its observation is that of a tenant cluster with private nodes. */
  readonly privateNodes?: true;
  /** Set if the scope is a single namespace with separate windows. */
  readonly namespace?: string;
  /** Names of its gaps: what is affected, and the source if that is not the watch. */
  readonly gapsOf: { readonly scope: string; readonly source?: string };
  /** False if nothing is lost while it cannot be closed. */
  readonly expected: boolean;
  /** Why a window cannot be closed; undefined if it can. */
  obstacle(settling: Settling): Obstacle | undefined;
}

/** How long a window waits for late data. All times are wall clock, milliseconds. */
export interface Settling {
  readonly end: number;
  /** The setting settlingDelay. */
  readonly delayMs: number;
  readonly now: number;
}

/** Checks only whether the view is complete. */
export const UNSETTLED: Settling = { end: Infinity, delayMs: 0, now: Infinity };

/** Why a window waits. */
export interface Obstacle {
  readonly source: string;
  readonly reason: string;
}

/** A scope and how far its windows are closed. */
export interface ScopeState {
  readonly scope: Scope;
  progress: ScopeProgress;
  /** Highest number of a tenant cluster that its closed windows knew. */
  learntUntil: number;
  /** Every watch of it has listed once since the start. */
  readonly listed: boolean;
}

/** How far the windows of a scope are closed. */
export interface ScopeProgress extends Progress {
  /** Start of the first window that was ever metered. */
  readonly meteredFrom: number;
}

/**
 * Why a scope cannot be closed for a window; undefined if its view is complete, or was complete
 * until the window settled. If a watch returned after the window's end, the settling delay begins
 * with its return. Whatever reports the state of pods may have been cut off for as long.
 */
export function obstacle(
  sources: readonly Pick<WatchedSource, 'resource' | 'health'>[],
  { end, delayMs, now }: Settling,
): Obstacle | undefined {
  for (const source of sources) {
    const { state, reason, freshAt, returnedAt = 0 } = source.health();
    if (state === 'absent') continue;
    const settledAt = Math.max(end, returnedAt) + delayMs;
    if (state === 'synced' && now >= settledAt) continue;
    if (state === 'failing' && freshAt >= settledAt) continue;
    return { source: source.resource.plural, reason: reason ?? UNREADY[state] };
  }
  return undefined;
}

const UNREADY: Readonly<Record<Exclude<SourceState, 'absent'>, string>> = {
  starting: 'starting: not listed yet',
  failing: 'failing: not listed yet',
  synced: 'resumed a moment ago: changes of the meantime are still arriving',
};
