import type { Window } from '../model/window.ts';

/** Windows of one size without a hole between them. Milliseconds since the epoch. */
export interface WindowRun {
  readonly from: number;
  readonly to: number;
  readonly sizeMs: number;
}

/** The runs with a window more, in order. One that is there already changes nothing. */
export function withWindow(runs: readonly WindowRun[], { start, end }: Window): WindowRun[] {
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

/** The runs with a window less. */
export function withoutWindow(runs: readonly WindowRun[], { start, end }: Window): WindowRun[] {
  return runs.flatMap((run) => {
    if (run.to <= start || end <= run.from) return [run];
    return [
      { ...run, to: start },
      { ...run, from: end },
    ].filter(({ from, to }) => from < to);
  });
}

/** How many windows the runs are. */
export function countWindows(runs: readonly WindowRun[]): number {
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

/** Whether a value out of the ledger is runs. */
export function areRuns(value: unknown): value is readonly WindowRun[] {
  return Array.isArray(value) && value.every(isRun);
}

function isRun(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const { from, to, sizeMs } = value as Partial<Record<keyof WindowRun, unknown>>;
  return [from, to, sizeMs].every(Number.isSafeInteger) && Number(sizeMs) > 0;
}
