import type { Window } from '../model/window.ts';
import { nextWindow } from './schedule.ts';
import type { ScopeProgress } from './scope.ts';

/** What is measured of usage that goes on: from the last closed window on, or from later. */
export interface LiveStretch {
  /** Until now, at least a millisecond. */
  readonly window: Window;
  readonly sizeMs: number;
  /** As {@link ScopeProgress.meteredFrom}; corrections of windows before it are left out. */
  readonly meteredFrom: number;
  /** The first window of it has ended. */
  readonly isLate: boolean;
}

export function liveStretch(
  progress: ScopeProgress,
  { since, windowMs, now }: Readonly<Record<'since' | 'windowMs' | 'now', number>>,
): LiveStretch {
  const { sizeMs } = progress;
  const start = Math.max(progress.end, since);
  // Before the first window, or when the clock was set back, nothing of it has gone on yet.
  const end = Math.max(now, start + 1);
  return {
    window: { start, end },
    sizeMs,
    // What is put right of windows before counts where the next window does.
    meteredFrom: start === progress.end ? progress.meteredFrom : start,
    isLate: end > nextWindow({ end: start, sizeMs }, windowMs).end,
  };
}
