import { least } from '../../model/extremes.ts';
import type { Settings } from '../../settings/settings.ts';
import { formatInstant, type Window } from '../../model/window.ts';
import type { Observation } from '../timelines/observation.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { CollectorMetrics } from './collector-metrics.ts';
import type { Gaps } from './gaps.ts';
import type { Quarantine } from './quarantine.ts';
import { expiredStretch, nextWindow, type NextWindow } from './schedule.ts';
import { type Obstacle, type ScopeState, UNSETTLED } from './scope.ts';
import type { Scopes } from './scopes.ts';

/** A window that can be closed, with every scope whose next window it is. */
export interface DueWindow {
  readonly window: NextWindow;
  readonly members: readonly ScopeState[];
}

export interface DueWindowsOptions {
  readonly scopes: Scopes;
  readonly observation: Observation;
  readonly settings: () => Settings;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly gaps: Gaps;
  readonly quarantine: Pick<Quarantine, 'reason'>;
  readonly metrics: CollectorMetrics;
}

/** The source of gaps of scopes whose own objects hold them back. */
const QUARANTINE = 'quarantine';
const STARTING: Obstacle = { source: 'startup', reason: 'not listed yet' };
const UNDISCOVERED: Obstacle = {
  source: 'discovery',
  reason: 'tenant clusters are not known yet',
};

/** A watch that breaks off for a moment is waited for. */
const DIVIDE_AFTER_MS = 2_000;

/**
 * After a start, windows wait so long for the first round of discovery: what it finds may have changed while
 * nobody looked. If none succeeds, what was known of tenant clusters before goes on.
 */
const FIRST_PASS_MS = 10_000;

/** Finds what can be closed, and keeps the gaps of what cannot. */
export class DueWindows {
  readonly #options: DueWindowsOptions;
  readonly #startedAt: number;
  /** When a window could first have been closed but for discovery. */
  #readyAt: number | undefined;

  constructor(options: DueWindowsOptions) {
    this.#options = options;
    this.#startedAt = options.clock.now();
  }

  /**
   * The oldest window that is due and of which some scope has seen all. Those of this cluster go
   * before what tenant clusters' own APIs have to catch up with.
   */
  next(): DueWindow | undefined {
    const { scopes, clock } = this.#options;
    const now = clock.now();
    this.#divide(now);
    const ready = scopes.all.filter((state) => {
      this.#giveUpExpired(state);
      const window = this.#upcoming(state);
      return this.#dueAt(window) <= now && this.#isReady(state, window);
    });
    const ofHost = ready.filter((state) => scopes.host.includes(state));
    const window = this.#oldest(ofHost) ?? this.#oldest(ready);
    if (window === undefined) return undefined;
    const members = ready.filter((state) => {
      const { start, end } = this.#upcoming(state);
      return start === window.start && end === window.end;
    });
    return { window, members };
  }

  /** The same with those of its scopes that can still be closed with it; undefined when none can. */
  still({ window, members }: DueWindow): DueWindow | undefined {
    const all = new Set(this.#options.scopes.all);
    const ready = members.filter((state) => {
      const { start, end } = this.#upcoming(state);
      const isNext = start === window.start && end === window.end && all.has(state);
      return isNext && this.#isReady(state, window);
    });
    return ready.length === 0 ? undefined : { window, members: ready };
  }

  /** When the next window is due, wall clock; in the past while a scope of this cluster waits. */
  nextDue(): number {
    const { scopes, clock } = this.#options;
    const now = clock.now();
    const due = (state: ScopeState): number => this.#dueAt(this.#upcoming(state));
    // What is dead of a single tenant cluster is looked at now and then, not all the time.
    const others = scopes.all.filter((state) => !scopes.host.includes(state));
    return least([...scopes.host.map(due), ...others.map(due).filter((time) => time > now)]);
  }

  /** How long ago the oldest window of this cluster ended that is not closed, milliseconds. */
  lagMs(): number {
    const { scopes, clock } = this.#options;
    const end = least(scopes.host.map((state) => this.#upcoming(state).end));
    return Math.max(0, clock.now() - end);
  }

  /** With WATCH_NAMESPACES, one namespace that cannot be watched holds nobody else's windows. */
  #divide(now: number): void {
    const { scopes, observation } = this.#options;
    if (observation.tenantClusters.observedAt === 0) return;
    for (const state of scopes.host) {
      const { end } = this.#upcoming(state);
      const delayMs = this.#metering.settlingDelayMs;
      if (now < end + delayMs + DIVIDE_AFTER_MS) continue;
      scopes.divide(state, { end, delayMs, now });
    }
  }

  get #metering(): Settings['metering'] {
    return this.#options.settings().metering;
  }

  #upcoming({ progress }: ScopeState): NextWindow {
    return nextWindow(progress, this.#metering.windowMs);
  }

  #dueAt({ end }: Window): number {
    return end + this.#metering.settlingDelayMs;
  }

  #oldest(ready: readonly ScopeState[]): NextWindow | undefined {
    return ready
      .map((state) => this.#upcoming(state))
      .toSorted((a, b) => a.end - b.end || a.start - b.start)[0];
  }

  /** What is older than MAX_BACKFILL is given up, and said so. */
  #giveUpExpired(state: ScopeState): void {
    const { clock, gaps, metrics, logger } = this.#options;
    const { windowMs, maxBackfillMs } = this.#metering;
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
  }

  /** Whether a scope has seen all of a window; if not, the gap is open until it is filled. */
  #isReady(state: ScopeState, window: Window): boolean {
    const obstacle = this.#obstacleOf(state, window);
    if (obstacle === undefined) return true;
    if (!state.scope.expected) return false;
    const now = this.#options.clock.now();
    const size = window.end - window.start;
    // A list that is being read, or a watch that is being resumed, is no gap yet.
    if (now < Math.max(this.#dueAt(window), this.#startedAt) + size) return false;
    const to = Math.max(window.end, Math.floor(now / size) * size);
    this.#options.gaps.note({ ...obstacle, ...state.scope.gapsOf, from: window.start, to });
    return false;
  }

  #obstacleOf({ scope, listed }: ScopeState, { end }: Window): Obstacle | undefined {
    const { observation, clock, quarantine } = this.#options;
    const reason = quarantine.reason(scope.name);
    if (reason !== undefined) return { source: QUARANTINE, reason };
    if (!listed) return scope.obstacle(UNSETTLED) ?? STARTING;
    const { observedAt } = observation.tenantClusters;
    const now = clock.now();
    this.#readyAt ??= now;
    const isAwaited = observedAt < this.#startedAt && now < this.#readyAt + FIRST_PASS_MS;
    if (observedAt === 0 || isAwaited) return UNDISCOVERED;
    return scope.obstacle({ end, delayMs: this.#metering.settlingDelayMs, now });
  }
}
