import type { Projected, SourceHealth, SourceState } from '../../kubernetes/source.ts';
import type { Meter } from '../meters/meter.ts';
import type { LoadBalancerView, VolumeClaimView } from '../timelines/retained-objects.ts';
import type { NodeView } from '../timelines/node.ts';
import type { ObservationReader } from '../timelines/observation.ts';
import type { PodView } from '../timelines/pod.ts';
import type { Progress } from './schedule.ts';

/** A watch, as far as the collector needs to know it. */
export interface WatchedSource<T extends Projected = Projected> {
  readonly resource: { readonly plural: string; readonly namespace?: string };
  /** One for each namespace, where it is watched by namespaces. */
  readonly members?: readonly WatchedSource<T>[];
  health(): SourceHealth;
  ready(signal: AbortSignal): Promise<void>;
  find(namespace: string, name: string): T | undefined;
  resourceVersion(): string | undefined;
}

/** The watches, one for each kind; workloads have two. No window waits for that of Namespaces. */
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

/** Where a watch can be resumed, and until when its view is known to hold. */
export interface WatchPoint {
  readonly resourceVersion?: string;
  /** Milliseconds since the epoch. */
  readonly knownAt: number;
}

/** Timelines as the collector settles them. */
export interface Settleable {
  settle(end: number): void;
}

/**
 * What is metered out of the same watches, and therefore closed together. A scope whose watch has
 * failed waits, while the others go on; no window of it is ever metered by half
 * (docs/explanation/metering.md#windows).
 */
export interface Scope {
  /** A `MeterScope`, or `tenant-api/<tenant cluster>`. */
  readonly name: string;
  readonly meters: readonly Meter[];
  /** What its meters see: only timelines of its own may stand for closed windows. */
  readonly observation: ObservationReader;
  /** The timelines that it settles; no other scope settles them. */
  readonly timelines: readonly Settleable[];
  /** Its observation is that of a tenant cluster with nodes of its own. */
  readonly privateNodes?: true;
  /** The one namespace that it stands for, whose windows are closed apart from its kind's. */
  readonly namespace?: string;
  /** How its gaps are named: what they cost, and what has failed where that is not the watch. */
  readonly gapsOf: { readonly scope: string; readonly source?: string };
  /** False while nobody misses anything if it cannot be closed. */
  readonly expected: boolean;
  /** Why a window cannot be closed; undefined when it can. */
  obstacle(settling: Settling): Obstacle | undefined;
}

/** How long a window waits for what arrives late. All times are wall clock, milliseconds. */
export interface Settling {
  /** The window's end. */
  readonly end: number;
  /** settlingDelay. */
  readonly delayMs: number;
  readonly now: number;
}

/** Asks only whether there is a whole view. */
export const UNSETTLED: Settling = { end: Infinity, delayMs: 0, now: Infinity };

/** What holds back a window. */
export interface Obstacle {
  readonly source: string;
  readonly reason: string;
}

/** A scope with how far its windows are closed. */
export interface ScopeState {
  readonly scope: Scope;
  progress: ScopeProgress;
  /** The tenant clusters that its closed windows knew of: those learnt up to this number. */
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
 * Why a scope cannot be closed for a window; undefined when its view is whole, or was until the window
 * had settled. Where a watch came back after the window's end, the settling delay begins with its
 * return: those who report what became of pods may have been cut off as long.
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
  synced: 'back a moment ago: what was written meanwhile is still arriving',
};
