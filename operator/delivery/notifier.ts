import type { Destination } from '../destinations/destination.ts';
import { backoffMs } from '../model/backoff.ts';
import type { BudgetNotice } from '../model/budget-notice.ts';
import { errorText } from '../model/error-text.ts';
import type { Clock } from '../telemetry/clock.ts';

/** The outcome of a notice, by destination. */
export interface NoticeOutcome {
  /** The destinations that have it, or refuse it for good. */
  readonly notified: readonly string[];
  /** One line for each other destination, with the reason. */
  readonly waiting: readonly string[];
}

const TIMEOUT_MS = 30_000;
const BACKOFF = { baseMs: 2_000, capMs: 60_000 };
/** Pause after a failure that an operator must fix. */
const BLOCKED_MS = 60_000;

/** Notifies destinations of thresholds. A failing one is paused, so it delays no other. */
export class Notifier {
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

  /** Notifies the destinations that are not in `alreadyNotified`. Never rejects. */
  async notify(
    destinations: readonly Destination[],
    notice: BudgetNotice,
    alreadyNotified: ReadonlySet<string>,
  ): Promise<NoticeOutcome> {
    const outcomes = await Promise.all(
      destinations.map(async (destination) => {
        const { name } = destination;
        const reason = alreadyNotified.has(name)
          ? undefined
          : await this.#report(destination, notice);
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

  /** Returns why the destination does not have the notice yet; undefined if it has. */
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
    const retryAfter =
      outcome.kind === 'retry' && 'afterMs' in outcome ? outcome.afterMs : undefined;
    const pause =
      outcome.kind === 'blocked'
        ? BLOCKED_MS
        : Math.max(retryAfter ?? 0, backoffMs(failures, { ...BACKOFF, random: this.#random }));
    const { reason } = outcome;
    this.#troubles.set(name, { reason, failures, until: this.#clock.monotonic() + pause });
    return reason;
  }
}
