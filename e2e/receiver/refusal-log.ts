const QUIET_MS = 10_000;

/**
 * Tells people what was refused: every reason when it comes first, and while it goes on at most every ten
 * seconds, with the number of requests since.
 */
export class RefusalLog {
  readonly #log: (line: string) => void;
  readonly #reported = new Map<string, { at: number; since: number }>();

  constructor(log: (line: string) => void = () => undefined) {
    this.#log = log;
  }

  /** `now` is milliseconds since the epoch. */
  report(status: number, reason: string, now: number): void {
    const line = `refused with ${status}: ${reason}`;
    const before = this.#reported.get(line);
    if (before !== undefined && now - before.at < QUIET_MS) {
      before.since += 1;
      return;
    }
    const repeated = before === undefined ? '' : ` (and ${before.since} times since the last line)`;
    this.#reported.set(line, { at: now, since: 0 });
    this.#log(line + repeated);
  }
}
