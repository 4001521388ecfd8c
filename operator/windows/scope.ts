import type { Meter } from '../metering/meter.ts';
import type { Observation } from '../observation/observation.ts';
import type { Projected, SourceHealth, SourceState } from '../kubernetes/source.ts';
import type { Progress } from './schedule.ts';

/** The names of the scopes, as gaps and reports spell them. */
export type ScopeName = 'pods' | 'gpus' | 'volumes' | 'load-balancers' | 'workloads';

/** A watch, as far as the collector needs to know it. */
export interface WatchedSource<T extends Projected = Projected> {
  readonly resource: { readonly plural: string };
  health(): SourceHealth;
  ready(signal: AbortSignal): Promise<void>;
  find(namespace: string, name: string): T | undefined;
  resourceVersion(): string | undefined;
}

/** Timelines as the collector settles them. */
export interface Settleable {
  readonly kind: string;
  settle(end: number): void;
  listed(holds: (object: Projected) => boolean, knownUntil: number): void;
}

/**
 * What is metered out of the same watches, and therefore closed together. A scope whose watch has
 * failed waits, while the others go on; no window of it is ever metered by half (design 6).
 */
export interface Scope {
  /** A {@link ScopeName}, or `tenant-api/<tenant cluster>`. */
  readonly name: string;
  readonly meters: readonly Meter[];
  /** What its meters see: only timelines of its own may stand for closed windows. */
  readonly observation: Observation;
  /** The timelines that it settles; no other scope settles them. */
  readonly timelines: readonly Settleable[];
  /** Its observation is that of a tenant cluster with nodes of its own. */
  readonly ownNodes?: true;
  /** How its gaps are told: what they cost, and what is named as failed instead of the watch. */
  readonly gapsOf: { readonly scope: string; readonly source?: string };
  /** False while nobody misses anything if it cannot be closed. */
  readonly expected: boolean;
  /** Why a window cannot be closed; undefined when it can. */
  obstacle(settling: Settling): Obstacle | undefined;
}

/** How long a window waits for what is told late. All times are wall clock, milliseconds. */
export interface Settling {
  /** The window's end. */
  readonly end: number;
  /** SETTLING_DELAY. */
  readonly delayMs: number;
  readonly now: number;
}

/** Nothing but whether there is a whole view. */
export const UNSETTLED: Settling = { end: Infinity, delayMs: 0, now: Infinity };

/** What holds back a window. */
export interface Obstacle {
  readonly source: string;
  readonly reason: string;
}

/** A scope with where it has got to. */
export interface ScopeUnderWay {
  readonly scope: Scope;
  progress: ScopeProgress;
  /** The tenant clusters that its closed windows knew of: those learnt up to this number. */
  learntUntil: number;
  /** Every watch of it has listed once since the start. */
  readonly listed: boolean;
}

/** Where a scope has got to. */
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
