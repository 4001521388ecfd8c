/**
 * Until when the versions we hold are known to have been the last ones. An event proves that
 * everything before it has arrived, but events that were held up arrive together: the first of a
 * burst must not vouch for the second. So a contact counts only once it is a few seconds old, and
 * not while a resumed watch is catching up.
 */
export interface ContactLog {
  /** Wall clock of the last contact; 0 before the first. */
  readonly last: number;
  /** An event or bookmark arrived. */
  touch(at: number): void;
  /** A whole list, asked for at `at`, confirmed every version. */
  confirm(at: number): void;
  /** A watch was opened where an earlier one left off: what follows may be old. */
  resume(at: number): void;
  /** For a change that arrives at `at`. */
  knownUntil(at: number): number;
}

const BURST_MS = 5_000;
const CATCH_UP_MS = 30_000;

export function createContactLog(knownAt: number): ContactLog {
  let last = 0;
  let confirmed = knownAt;
  let candidate = knownAt;
  let catchingUpUntil = Number.NEGATIVE_INFINITY;

  return {
    get last() {
      return last;
    },
    touch: (at) => {
      last = at;
      if (at < catchingUpUntil || at - candidate < BURST_MS) return;
      confirmed = candidate;
      candidate = at;
    },
    confirm: (at) => {
      last = at;
      confirmed = at;
      candidate = at;
      catchingUpUntil = Number.NEGATIVE_INFINITY;
    },
    resume: (at) => {
      catchingUpUntil = at + CATCH_UP_MS;
    },
    knownUntil: (at) => Math.min(at, at - candidate < BURST_MS ? confirmed : candidate),
  };
}
