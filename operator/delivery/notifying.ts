import type { Destination } from '../destinations/destination.ts';
import { backoffMs } from '../model/backoff.ts';
import type { BudgetNotice } from '../model/budget-notice.ts';
import { errorText } from '../model/error-text.ts';
import type { Clock } from '../telemetry/clock.ts';

/** What became of a notice. */
export interface NoticeOutcome {
  /** The destinations that have it, or want none of it. */
  readonly notified: readonly string[];
  /** Why others do not have it yet, one line each. */
  readonly waiting: readonly string[];
}

const TIMEOUT_MS = 30_000;
const BACKOFF = { baseMs: 2_000, capMs: 60_000 };
/** An operator must mend it. */
const HELD_MS = 60_000;

/** Tells destinations of thresholds; one that fails is left alone for a while, so that it holds up nobody else. */
export class Notifying {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #random: () => number;
  readonly #troubles = new Map<
    string,
    { readonly reason: string; readonly failures: number; readonly until: number }
  >();

  constructor({ clock, random }: { clock: Pick<Clock, 'monotonic'>; random: () => number }) {
    this.#clock = clock;
    this.#random = random;
  }

  /** Tells those that are not among `told` yet. Never rejects. */
  async notify(
    destinations: readonly Destination[],
    notice: BudgetNotice,
    reported: ReadonlySet<string>,
  ): Promise<NoticeOutcome> {
    const outcomes = await Promise.all(
      destinations.map(async (destination) => {
        const { name } = destination;
        const reason = reported.has(name) ? undefined : await this.#report(destination, notice);
        return { name, reason };
      }),
    );
    return {
      notified: outcomes.flatMap(({ name, reason }) => (reason === undefined ? [name] : [])),
      waiting: outcomes.flatMap(({ name, reason }) =>
        reason === undefined ? [] : [`${name}: ${reason}`],
      ),
    };
  }

  /** Why it does not have it yet; undefined where it has. */
  async #report(destination: Destination, notice: BudgetNotice): Promise<string | undefined> {
    const { name } = destination;
    const before = this.#troubles.get(name);
    if (before !== undefined && this.#clock.monotonic() < before.until) return before.reason;
    const outcome = await (
      destination.notices?.notify(notice, AbortSignal.timeout(TIMEOUT_MS)) ??
      Promise.resolve({ kind: 'done' as const })
    ).catch((error: unknown) => ({ kind: 'retry' as const, reason: errorText(error) }));
    if (outcome.kind === 'done' || outcome.kind === 'rejected') {
      this.#troubles.delete(name);
      return undefined;
    }
    const failures = (before?.failures ?? 0) + 1;
    const requested =
      outcome.kind === 'retry' && 'afterMs' in outcome ? outcome.afterMs : undefined;
    const pause =
      outcome.kind === 'hold'
        ? HELD_MS
        : Math.max(requested ?? 0, backoffMs(failures, { ...BACKOFF, random: this.#random }));
    const { reason } = outcome;
    this.#troubles.set(name, { reason, failures, until: this.#clock.monotonic() + pause });
    return reason;
  }
}
