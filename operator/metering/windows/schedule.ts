import type { Window } from '../../model/window.ts';

/** Where the windows of a scope have got to. */
export interface Progress {
  /** End of the last window that was closed or given up. */
  readonly end: number;
  /** The window size in force up to there. */
  readonly sizeMs: number;
}

/** The next window, and the size that it has. */
export interface NextWindow extends Window {
  readonly sizeMs: number;
}

/**
 * The window after the last closed one. A changed size takes effect at the first boundary that both
 * sizes have: until then windows keep the old size, so that none overlaps another. Both sizes
 * divide an hour, so that boundary is an hour away at most.
 */
export function nextWindow({ end, sizeMs }: Progress, wantedMs: number): NextWindow {
  const size = end % wantedMs === 0 ? wantedMs : sizeMs;
  return { start: end, end: end + size, sizeMs: size };
}

/**
 * Where a service that has never closed a window begins: with the first full window after its
 * start. The window under way was only seen in part, and what was used before cannot be told from
 * what another service has billed already.
 */
export function firstProgress(startedAt: number, sizeMs: number): Progress {
  return { end: Math.ceil(startedAt / sizeMs) * sizeMs, sizeMs };
}

/** A window is never too old in its own time, however short MAX_BACKFILL is. */
const MIN_BACKFILL_WINDOWS = 2;

/** The stretch that is too old to be metered (MAX_BACKFILL), as whole windows; undefined when there is none. */
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
