import { errorText } from '../../../operator/model/error-text.ts';
import type { Charge } from '../world/honest-estate.ts';
import { type BilledEvent, type BillWindow, compareBill } from './truth.ts';
import type { Decision } from './evaluation.ts';

export interface BillsOptions {
  readonly address: string;
  readonly token: string;
  readonly tenants: readonly string[];
  /** All charges, ended ones included. */
  readonly charges: () => readonly Charge[];
  readonly decision: Decision;
  /** For how long the operator has been without a processor so far, milliseconds. */
  readonly waitedMs: () => number;
  /** False while it is stopped on purpose. */
  readonly isUp: () => boolean;
}

interface Pending extends BillWindow {
  /** From when on it is late, milliseconds since the epoch. */
  dueAt: number;
  /** How long the operator had been without a processor at the window's end; undefined before. */
  waitedAtEnd: number | undefined;
  isLate: boolean;
}

/** Given up on: it is misbilled, for good. */
const LOST_MS = 120_000;

/** Holds the bill of every window of the honest tenants against the truth, as soon as it is due. */
export class Bills {
  readonly #options: BillsOptions;
  readonly #verified: BilledEvent[] = [];
  #pending: Pending[] = [];

  constructor(options: BillsOptions) {
    this.#options = options;
  }

  /** What was verified, for holding deliveries against it. */
  get verified(): readonly BilledEvent[] {
    return this.#verified;
  }

  get pending(): number {
    return this.#pending.length;
  }

  expect(window: BillWindow, dueAt: number): void {
    this.#pending.push({ ...window, dueAt, waitedAtEnd: undefined, isLate: false });
  }

  /** After a restart: what is missing has time again until then. */
  excuse(until: number): void {
    for (const window of this.#pending) {
      window.dueAt = Math.max(window.dueAt, until);
      window.waitedAtEnd = undefined;
    }
  }

  /** Looks at every window that is due; to be called again and again while the operator is up. */
  async verify(now: number): Promise<void> {
    const waited = this.#options.waitedMs();
    for (const window of this.#pending) {
      if (window.end <= now) window.waitedAtEnd ??= waited;
    }
    for (const window of this.#pending) {
      if (now < window.dueAt + waited - (window.waitedAtEnd ?? waited)) continue;
      const { decision, tenants, charges } = this.#options;
      const events = await this.events(window);
      // A stop may have cut the answer off; it is asked again after the start.
      if (!this.#options.isUp()) return;
      if (!Array.isArray(events)) {
        this.#late(window, `the API does not show: ${events}`);
        continue;
      }
      const { missing, wrong } = compareBill(events, charges(), tenants, window);
      if (missing.length > 0 && now < window.dueAt + LOST_MS) {
        this.#late(window, `not billed yet: ${missing.slice(0, 5).join(', ')}`);
        continue;
      }
      for (const what of wrong) decision.fail('misbilled', `${name(window)}: ${what}`);
      for (const what of missing) decision.fail('misbilled', `${name(window)}: ${what}: never`);
      this.#pending = this.#pending.filter((each) => each !== window);
      this.#verified.push(...events);
    }
  }

  /** The honest tenants' events of a window; a text says why the operator does not tell. */
  async events(window: BillWindow): Promise<BilledEvent[] | string> {
    const { address, token, tenants } = this.#options;
    const time = (ms: number): string => new Date(ms).toISOString();
    const events: BilledEvent[] = [];
    try {
      for (const tenant of tenants) {
        const query = new URLSearchParams({
          from: time(window.start),
          to: time(window.end),
          tenant,
        });
        const answer = await fetch(`${address}/api/v1/events?${query.toString()}`, {
          headers: { authorization: `Bearer ${token}` },
          signal: AbortSignal.timeout(5_000),
        });
        if (!answer.ok) return `HTTP ${answer.status}`;
        const lines = (await answer.text()).split('\n').filter((line) => line !== '');
        events.push(...lines.map((line) => JSON.parse(line) as BilledEvent));
      }
      return events;
    } catch (error) {
      return errorText(error);
    }
  }

  #late(window: Pending, why: string): void {
    if (!window.isLate) this.#options.decision.fail('starved', `${name(window)}: late: ${why}`);
    window.isLate = true;
  }
}

function name({ end }: BillWindow): string {
  return `window ${new Date(end).toISOString().slice(11, 19)}`;
}
