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

/** A window that can be closed, with every scope that has it next. */
export interface DueWindow {
  readonly window: NextWindow;
  readonly members: readonly ScopeState[];
}

/** Gap source of scopes whose own objects block them. */
const QUARANTINE = 'quarantine';
const STARTING: Obstacle = { source: 'startup', reason: 'not listed yet' };
const UNDISCOVERED: Obstacle = {
  source: 'discovery',
  reason: 'tenant clusters are not known yet',
};

/** A watch may break off for this long before its namespace is closed separately. */
const DIVIDE_AFTER_MS = 2_000;

/**
 * Windows wait this long after a start for the first discovery pass. Tenant clusters may have
 * changed while the operator was down. If no pass succeeds, the known tenant clusters are used.
 */
const FIRST_PASS_MS = 10_000;

/** Finds the windows that can be closed, and notes gaps for those that cannot. */
export class DueWindows {
  readonly #options;
  readonly #startedAt: number;
  /** When the first window could have been closed if discovery had finished. */
  #readyAt: number | undefined;

  constructor(options: {
    readonly scopes: Scopes;
    readonly observation: Observation;
    readonly settings: () => Settings;
    readonly clock: Clock;
    readonly logger: Logger;
    readonly gaps: Gaps;
    readonly quarantine: Pick<Quarantine, 'reason'>;
    readonly metrics: CollectorMetrics;
  }) {
    this.#options = options;
    this.#startedAt = options.clock.now();
  }

  /**
   * The oldest due window for which at least one scope has a complete view. Windows of this cluster
   * go first, before the backlog of tenant clusters' own APIs.
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

  /** The same window with the scopes that can still close it; undefined if none can. */
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
    // An overdue scope of a single tenant cluster does not make the loop spin.
    const others = scopes.all.filter((state) => !scopes.host.includes(state));
    return least([...scopes.host.map(due), ...others.map(due).filter((time) => time > now)]);
  }

  /** As `Collector.unclosedEnd`. */
  unclosedEnd(): number {
    return least(this.#options.scopes.host.map((state) => this.#upcoming(state).end));
  }

  /** Milliseconds since the end of the oldest window of this cluster that is not closed. */
  lagMs(): number {
    return Math.max(0, this.#options.clock.now() - this.unclosedEnd());
  }

  /** With WATCH_NAMESPACES: a namespace whose watch fails closes separately and blocks no other. */
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

  /** Gives up windows older than MAX_BACKFILL, with a gap and a log line. */
  #giveUpExpired(state: ScopeState): void {
    const { clock, gaps, metrics, logger } = this.#options;
    const { windowMs, maxBackfillMs } = this.#metering;
    const expired = expiredStretch(state.progress, windowMs, clock.now(), maxBackfillMs);
    if (expired === undefined) return;
    // Give up late facts before it too: a reversal would give back what was never billed.
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

  /** Whether a scope has a complete view of a window. If not, notes a gap that may be filled. */
  #isReady(state: ScopeState, window: Window): boolean {
    const obstacle = this.#obstacleOf(state, window);
    if (obstacle === undefined) return true;
    if (!state.scope.expected) return false;
    const now = this.#options.clock.now();
    const size = window.end - window.start;
    // Listing or resuming a watch is not a gap yet.
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
