import type { Window } from '../../model/window.ts';

/** How far the windows of a scope are closed. */
export interface Progress {
  /** End of the last window that was closed or given up. */
  readonly end: number;
  /** The window size in force up to there. */
  readonly sizeMs: number;
}

/** The next window and its size. */
export interface NextWindow extends Window {
  readonly sizeMs: number;
}

/**
 * The window after the last closed one. A changed size takes effect at the first boundary that both
 * sizes share. Until then windows have the old size, so that none overlaps another. Both sizes
 * divide an hour, so the boundary is at most an hour away.
 */
export function nextWindow({ end, sizeMs }: Progress, wantedMs: number): NextWindow {
  const size = end % wantedMs === 0 ? wantedMs : sizeMs;
  return { start: end, end: end + size, sizeMs: size };
}

/**
 * Where a service that has never closed a window begins: with the first full window after its
 * start. The running window was only observed in part. Another service may have billed earlier
 * usage.
 */
export function firstProgress(startedAt: number, sizeMs: number): Progress {
  return { end: Math.ceil(startedAt / sizeMs) * sizeMs, sizeMs };
}

/** The last windows are never too old, however short MAX_BACKFILL is. */
const MIN_BACKFILL_WINDOWS = 2;

/** The stretch older than MAX_BACKFILL, as complete windows; undefined if there is none. */
export function expiredStretch(
  progress: Progress,
  wantedMs: number,
  now: number,
  maxBackfillMs: number,
): (Window & { readonly progress: Progress }) | undefined {
  const oldest =
    now - Math.max(maxBackfillMs, MIN_BACKFILL_WINDOWS * Math.max(wantedMs, progress.sizeMs));
  let next: Progress = progress;
  for (;;) {
    const window = nextWindow(next, wantedMs);
    if (window.end > oldest) break;
    next = { end: window.end, sizeMs: window.sizeMs };
  }
  if (next.end === progress.end) return undefined;
  return { start: progress.end, end: next.end, progress: next };
}
