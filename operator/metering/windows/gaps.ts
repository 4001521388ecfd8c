import type { RecordChange } from '../../ledger/ledger.ts';
import type { Diagnostics } from '../meters/meter-reports.ts';
import type { Window } from '../../model/window.ts';

/**
 * A stretch that could not be measured: its usage is unknown, which is not zero
 * (docs/explanation/gaps.md#unknown-is-not-zero).
 */
export interface Gap {
  /** What failed: the plural of a watched resource, `metrics`, or `collector` for downtime. */
  readonly source: string;
  /** What is affected: a scope such as `pods`, or the id of a tenant cluster. */
  readonly scope: string;
  /** Milliseconds since the epoch. */
  readonly from: number;
  readonly to: number;
  readonly reason: string;
}

/** Key prefix of gap records. */
export const GAP_PREFIX = 'gap/';

/** Gap source of windows older than MAX_BACKFILL, which nothing can fill. */
const GIVEN_UP = 'collector';

/** Gap reason: no watch covered the stretch, in which objects may have come and gone. */
export const UNSEEN = 'unseen';

/** Gap reason: a tenant cluster's pods ran in a closed window, without a known tenant. */
export const NO_TENANCY = 'running pods, and no tenant for this time';

/** Reasons of gaps that stay: no later data shows what was used in them. */
export const FINAL_REASONS: ReadonlySet<string> = new Set([UNSEEN, NO_TENANCY]);

/** Covers this month and the previous one. */
export const PAST_GAPS_MS = 62 * 86_400_000;

/**
 * Gap reason: usage samples were dropped because windows waited too long
 * (docs/how-to/postgresql.md#while-the-database-is-away).
 */
export const SAMPLES_DROPPED = 'database away for longer than samples are kept';

/** Most stored past gaps; the oldest go first. It bounds a source that fails every minute. */
const MOST_PAST_GAPS = 20_000;

/** All recorded gaps, with the changes that are not in the ledger yet. */
export class Gaps {
  readonly #prefix: string;
  readonly #gaps = new Map<string, Gap>();
  readonly #past = new Map<string, Gap>();
  readonly #changed = new Set<string>();

  /** A caller with its own gaps passes its own key `prefix`. */
  constructor(prefix = GAP_PREFIX) {
    this.#prefix = prefix;
  }

  /** Records a gap, or extends one of its source and scope. Returns the added milliseconds. */
  note(gap: Gap): number {
    const before = this.#like(gap).find((known) => known.from <= gap.from && known.to >= gap.from);
    if (before === undefined) {
      this.#put(gap);
      return gap.to - gap.from;
    }
    const to = Math.max(before.to, gap.to);
    if (to !== before.to || gap.reason !== before.reason) {
      this.#put({ ...before, to, reason: gap.reason });
    }
    return to - before.to;
  }

  /**
   * Removes the gaps of a scope that windows have filled up to `until`; with `source`, only those
   * of that source. Gaps that nothing can fill stay.
   */
  filled(
    { scope, source }: { readonly scope: string; readonly source?: string },
    until: number,
  ): void {
    for (const gap of this.#gaps.values()) {
      if (gap.scope !== scope || gap.from >= until) continue;
      if (gap.source === GIVEN_UP || FINAL_REASONS.has(gap.reason)) continue;
      if (source !== undefined && gap.source !== source) continue;
      const key = this.#keyOf(gap);
      this.#gaps.delete(key);
      this.#changed.add(key);
      if (gap.to > until) this.#put({ ...gap, from: until });
    }
  }

  /** Moves gaps ended before `horizon` to the past; removes those ended before `pastHorizon`. */
  prune(horizon: number, pastHorizon = horizon): void {
    for (const [key, gap] of this.#gaps) {
      if (gap.to >= horizon) continue;
      this.#gaps.delete(key);
      this.#past.set(key, gap);
    }
    for (const [key, gap] of this.#past) {
      if (gap.to >= pastHorizon && this.#past.size <= MOST_PAST_GAPS) continue;
      this.#past.delete(key);
      this.#changed.add(key);
    }
  }

  /** Gaps that are not past, newest first. */
  list(): readonly Gap[] {
    return newestFirst(this.#gaps);
  }

  /** Past gaps, newest first. Past months need them. */
  past(): readonly Gap[] {
    return newestFirst(this.#past);
  }

  /** Returns the changes since the last call as records. */
  drain(): readonly RecordChange[] {
    const changes = [...this.#changed].map((key) => {
      const gap = this.#gaps.get(key) ?? this.#past.get(key);
      return { key, value: gap === undefined ? undefined : JSON.stringify({ v: 1, ...gap }) };
    });
    this.#changed.clear();
    return changes;
  }

  /** Takes back drained changes that could not be written; the next call returns them again. */
  putBack(changes: readonly RecordChange[]): void {
    for (const { key } of changes) this.#changed.add(key);
  }

  restore(records: Iterable<readonly [key: string, value: string]>): void {
    for (const [key, value] of records) {
      const gap = parseGap(value);
      if (gap === undefined) continue;
      const present = this.#keyOf(gap);
      this.#gaps.set(present, gap);
      // The record of an earlier version has another key.
      if (present !== key) for (const one of [key, present]) this.#changed.add(one);
    }
  }

  #keyOf({ source, scope, from, reason }: Gap): string {
    const start = new Date(from).toISOString();
    return [`${this.#prefix}${source}`, scope, ...finalReason(reason), start].join('/');
  }

  #put(gap: Gap): void {
    const key = this.#keyOf(gap);
    this.#gaps.set(key, gap);
    this.#changed.add(key);
  }

  /** Gaps of the same source and scope. A gap that stays never merges with a fillable one. */
  #like({ source, scope, reason }: Gap): readonly Gap[] {
    return [...this.#gaps.values()].filter(
      (gap) =>
        gap.source === source &&
        gap.scope === scope &&
        finalReason(gap.reason)[0] === finalReason(reason)[0],
    );
  }
}

function newestFirst(gaps: ReadonlyMap<string, Gap>): readonly Gap[] {
  return [...gaps.values()].toSorted((a, b) => b.to - a.to);
}

/** Key part of a gap that stays; empty for a gap that can be filled. */
function finalReason(reason: string): readonly string[] {
  return FINAL_REASONS.has(reason) ? [reason] : [];
}

function parseGap(text: string): Gap | undefined {
  const { v, source, scope, from, to, reason } = JSON.parse(text) as Partial<Gap> & { v?: unknown };
  if (v !== 1 || source === undefined || scope === undefined) return undefined;
  if (from === undefined || to === undefined) return undefined;
  return inPresentForm({ source, scope, from, to, reason: reason ?? '' });
}

/** Returns a gap with the present name of its source. */
export function inPresentForm(gap: Gap): Gap {
  return gap.source === 'own-nodes' ? { ...gap, source: 'private-nodes' } : gap;
}

/** Why usage cannot be read, and since when (wall clock, milliseconds). */
export interface UsageFailure {
  readonly reason: string;
  readonly since: number;
}

/** Known reasons for missing usage samples. */
export interface UsageFailures {
  /** Set while no usage can be read at all. */
  readonly all: UsageFailure | undefined;
  /** Why the usage of this tenant cluster cannot be read. */
  of(tenantCluster: string): UsageFailure | undefined;
}

/** Gaps of nodes with more resource slices than are read; scope `*` stands for this cluster. */
export function omittedSliceGaps(
  { start: from, end: to }: Window,
  { omittedSlices }: Diagnostics,
  scope = '*',
): readonly Gap[] {
  const [first] = omittedSlices;
  if (first === undefined) return [];
  const [node, slices] = first;
  const more = omittedSlices.size > 1 ? `, and ${omittedSlices.size - 1} nodes more` : '';
  const reason = `${slices} too many resource slices of node ${node}${more}: the newest count`;
  return [{ source: 'resourceslices', scope, from, to, reason }];
}

/**
 * Gaps of usage without samples. One for each tenant cluster, or one for all (`*`) while no usage
 * at all can be read. Samples up to `droppedUntil` were taken and dropped.
 */
export function unsampledGaps(
  window: Window,
  { unsampled }: Diagnostics,
  failures: UsageFailures,
  droppedUntil = -Infinity,
): readonly Gap[] {
  if (unsampled.size === 0) return [];
  const { all } = failures;
  if (all === undefined || all.since > window.start) {
    return [...unsampled].map(([scope, { from, to }]) => {
      const unknown = from <= droppedUntil ? SAMPLES_DROPPED : 'pods without samples';
      const reason = (all ?? failures.of(scope))?.reason ?? unknown;
      return { source: 'metrics', scope, from, to, reason };
    });
  }
  const stretches = [...unsampled.values()];
  const from = stretches.reduce((least, stretch) => Math.min(least, stretch.from), Infinity);
  const to = stretches.reduce((most, stretch) => Math.max(most, stretch.to), 0);
  return [{ source: 'metrics', scope: '*', from, to, reason: all.reason }];
}
