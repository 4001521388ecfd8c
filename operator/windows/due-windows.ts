import type { Settings } from '../config/settings.ts';
import type { Observation } from '../observation/observation.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { formatInstant, type Window } from '../model/window.ts';
import type { CollectorMetrics } from './collector-metrics.ts';
import type { Gaps } from './gaps.ts';
import { expiredStretch, nextWindow, type NextWindow } from './schedule.ts';
import { type ScopeState, UNSETTLED } from './scope.ts';
import type { Scopes } from './scopes.ts';

/** A window that can be closed, with every scope whose next window it is. */
export interface DueWindow {
  readonly window: NextWindow;
  readonly members: readonly ScopeState[];
}

/** Finds what can be closed, and keeps the gaps of what cannot. */
export interface DueWindows {
  /**
   * The oldest window that is due and of which some scope has seen all. Those of this cluster go
   * before what tenant clusters' own APIs have to catch up with.
   */
  next(): DueWindow | undefined;
  /** When the next window is due, wall clock; in the past while a scope of this cluster waits. */
  nextDue(): number;
  /** How long ago the oldest window of this cluster ended that is not closed, milliseconds. */
  lagMs(): number;
}

export interface DueWindowsOptions {
  readonly scopes: Scopes;
  readonly observation: Observation;
  readonly settings: () => Settings;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly gaps: Gaps;
  readonly metrics: CollectorMetrics;
}

const STARTING = { source: 'startup', reason: 'not listed yet' };
const UNDISCOVERED = { source: 'discovery', reason: 'tenant clusters are not known yet' };

export function createDueWindows(options: DueWindowsOptions): DueWindows {
  const { scopes, observation, clock, logger, gaps, metrics } = options;
  const startedAt = clock.now();
  const metering = () => options.settings().metering;
  const upcoming = (state: ScopeState): NextWindow =>
    nextWindow(state.progress, metering().windowMs);
  const dueAt = (window: Window): number => window.end + metering().settlingDelayMs;

  /** What is older than MAX_BACKFILL is given up, and said so. */
  const giveUpExpired = (state: ScopeState): void => {
    const { windowMs, maxBackfillMs } = metering();
    const expired = expiredStretch(state.progress, windowMs, clock.now(), maxBackfillMs);
    if (expired === undefined) return;
    // Late facts before it are given up with it: a credit would give back what was never billed.
    state.progress = { ...expired.progress, meteredFrom: expired.end };
    if (!state.scope.expected) return;
    const { start: from, end: to } = expired;
    const reason = 'older than MAX_BACKFILL';
    const { scope } = state.scope.gapsOf;
    const added = gaps.note({ source: 'collector', scope, from, to, reason });
    metrics.gapSeconds.inc({ source: 'collector' }, added / 1000);
    logger.error(`[controller] not metered, ${reason}: ${state.scope.name}`, {
      from: formatInstant(from),
      to: formatInstant(to),
    });
  };

  const obstacleOf = (state: ScopeState, window: Window) => {
    if (!state.listed) return state.scope.obstacle(UNSETTLED) ?? STARTING;
    if (observation.tenantClusters.observedAt === 0) return UNDISCOVERED;
    const delayMs = metering().settlingDelayMs;
    return state.scope.obstacle({ end: window.end, delayMs, now: clock.now() });
  };

  /** Whether a scope has seen all of a window; if not, the gap is open until it is filled. */
  const isReady = (state: ScopeState, window: Window): boolean => {
    const blocked = obstacleOf(state, window);
    if (blocked === undefined) return true;
    if (!state.scope.expected) return false;
    const now = clock.now();
    const size = window.end - window.start;
    // A list that is being read, or a watch that is being resumed, is no gap yet.
    if (now < Math.max(dueAt(window), startedAt) + size) return false;
    const to = Math.max(window.end, Math.floor(now / size) * size);
    gaps.note({ ...blocked, ...state.scope.gapsOf, from: window.start, to });
    return false;
  };

  const oldest = (ready: readonly ScopeState[]): NextWindow | undefined =>
    ready.map(upcoming).toSorted((a, b) => a.end - b.end || a.start - b.start)[0];

  return {
    next: () => {
      const now = clock.now();
      const ready = scopes.all.filter((state) => {
        giveUpExpired(state);
        const window = upcoming(state);
        return dueAt(window) <= now && isReady(state, window);
      });
      const window =
        oldest(ready.filter((state) => state.scope.ownNodes !== true)) ?? oldest(ready);
      if (window === undefined) return undefined;
      const members = ready.filter((state) => {
        const { start, end } = upcoming(state);
        return start === window.start && end === window.end;
      });
      return { window, members };
    },
    nextDue: () => {
      const now = clock.now();
      const due = (state: ScopeState): number => dueAt(upcoming(state));
      // A tenant cluster's API that is dead is looked at now and then, not all the time.
      const ofTenants = scopes.tenants.all.map(due).filter((time) => time > now);
      return Math.min(...scopes.host.map(due), ...ofTenants);
    },
    lagMs: () => {
      const end = Math.min(...scopes.host.map((state) => upcoming(state).end));
      return Math.max(0, clock.now() - end);
    },
  };
}
