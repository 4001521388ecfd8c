import type { RecordChange } from '../ledger/ledger.ts';
import { isRecord } from '../model/is-record.ts';
import type { Window } from '../model/window.ts';

/** Windows of one metric of one tenant cluster that have no answer yet. */
interface UnansweredWindows {
  readonly metric: string;
  readonly tenantCluster: string;
  /** Why the last query failed. */
  readonly reason: string;
  readonly runs: readonly WindowRun[];
}

/** Key prefix of the records: `prometheus/pending/<metric>/<tenant cluster>`. */
export const UNANSWERED_PREFIX = 'prometheus/pending/';

/**
 * The windows without an answer, by metric and tenant cluster, with the changes that are not in the
 * ledger yet.
 */
export class Unanswered {
  readonly #works = new Map<string, UnansweredWindows>();
  readonly #changed = new Set<string>();

  add(metric: string, tenantCluster: string, window: Window, reason: string): void {
    const runs = withWindow(this.find(metric, tenantCluster)?.runs ?? [], window);
    this.#put({ metric, tenantCluster, reason, runs });
  }

  /** Removes a window that was answered or given up. */
  remove(metric: string, tenantCluster: string, window: Window): void {
    const known = this.find(metric, tenantCluster);
    if (known !== undefined) this.#put({ ...known, runs: withoutWindow(known.runs, window) });
  }

  list(): readonly UnansweredWindows[] {
    return [...this.#works.values()];
  }

  find(metric: string, tenantCluster: string): UnansweredWindows | undefined {
    return this.#works.get(keyOf(metric, tenantCluster));
  }

  /** Number of windows, of all metrics and tenant clusters. */
  windows(): number {
    return this.list().reduce((sum, { runs }) => sum + countWindows(runs), 0);
  }

  /** Returns the changes since the last call as records. */
  drain(): readonly RecordChange[] {
    const changes = [...this.#changed].map((key) => {
      const work = this.#works.get(key);
      return { key, value: work === undefined ? undefined : JSON.stringify({ v: 1, ...work }) };
    });
    this.#changed.clear();
    return changes;
  }

  restore(records: Iterable<readonly [key: string, value: string]>): void {
    for (const [key, value] of records) {
      const work = parse(value);
      if (work !== undefined) this.#works.set(key, work);
    }
  }

  #put(work: UnansweredWindows): void {
    const key = keyOf(work.metric, work.tenantCluster);
    if (work.runs.length === 0) this.#works.delete(key);
    else this.#works.set(key, work);
    this.#changed.add(key);
  }
}

function keyOf(metric: string, tenantCluster: string): string {
  return `${UNANSWERED_PREFIX}${metric}/${tenantCluster}`;
}

function parse(text: string): UnansweredWindows | undefined {
  const stored = JSON.parse(text) as Partial<UnansweredWindows> & { readonly v?: unknown };
  const { v, metric, tenantCluster, reason = '', runs } = stored;
  if (v !== 1 || metric === undefined || tenantCluster === undefined) return undefined;
  return areRuns(runs) ? { metric, tenantCluster, reason, runs } : undefined;
}

/** Consecutive windows of one size, milliseconds since the epoch. */
interface WindowRun {
  readonly from: number;
  readonly to: number;
  readonly sizeMs: number;
}

/** Adds a window to the sorted runs. A window that they cover changes nothing. */
function withWindow(runs: readonly WindowRun[], { start, end }: Window): WindowRun[] {
  if (runs.some(({ from, to }) => from < end && start < to)) return [...runs];
  const sizeMs = end - start;
  const sorted = [...runs, { from: start, to: end, sizeMs }].toSorted((a, b) => a.from - b.from);
  const joined: WindowRun[] = [];
  for (const run of sorted) {
    const last = joined.at(-1);
    if (last !== undefined && last.to === run.from && last.sizeMs === run.sizeMs) {
      joined[joined.length - 1] = { ...last, to: run.to };
    } else {
      joined.push(run);
    }
  }
  return joined;
}

function withoutWindow(runs: readonly WindowRun[], { start, end }: Window): WindowRun[] {
  return runs.flatMap((run) => {
    if (run.to <= start || end <= run.from) return [run];
    return [
      { ...run, to: start },
      { ...run, from: end },
    ].filter(({ from, to }) => from < to);
  });
}

function countWindows(runs: readonly WindowRun[]): number {
  return runs.reduce((sum, { from, to, sizeMs }) => sum + Math.round((to - from) / sizeMs), 0);
}

/** Every window of the runs, oldest first. */
export function windowsOf(runs: readonly WindowRun[]): Window[] {
  return runs.flatMap(({ from, to, sizeMs }) =>
    Array.from({ length: Math.round((to - from) / sizeMs) }, (_, index) => ({
      start: from + index * sizeMs,
      end: from + (index + 1) * sizeMs,
    })),
  );
}

/** The oldest and newest window of the runs; undefined if there are none. */
export function edgesOf(
  runs: readonly WindowRun[],
): { readonly oldest: Window; readonly newest: Window } | undefined {
  const [first] = runs;
  const last = runs.at(-1);
  if (first === undefined || last === undefined) return undefined;
  return {
    oldest: { start: first.from, end: first.from + first.sizeMs },
    newest: { start: last.to - last.sizeMs, end: last.to },
  };
}

/** Whether a stored value is a list of runs. */
function areRuns(value: unknown): value is readonly WindowRun[] {
  return Array.isArray(value) && value.every(isRun);
}

function isRun(value: unknown): boolean {
  if (!isRecord(value)) return false;
  const { from, to, sizeMs } = value;
  return [from, to, sizeMs].every(Number.isSafeInteger) && Number(sizeMs) > 0;
}
