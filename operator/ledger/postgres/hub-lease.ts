import type { LedgerDatabase } from '../../settings/settings.ts';
import { errorText } from '../../model/error-text.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { migrateHub } from './hub-tables.ts';
import { openSession, type Row, type Session } from './session.ts';
import { beginText, commit } from './transaction.ts';

/** Milliseconds. The monotonic clock of the process that waits measures each: no clocks are compared. */
const TIMES = { expiry: 15_000, trust: 10_000, retry: 2_000, answer: 3_000, lock: 1_000 };

/** Reads the epoch in force; the next holder waits for the end of the transaction. */
export const LOCK_HUB_LEASE = 'select epoch from meterfeed_hub.lease for key share';

export interface HubLeaseOptions {
  readonly database: LedgerDatabase;
  /** Of this process alone. */
  readonly owner: string;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * The row `meterfeed_hub.lease` of a database: its holder acts there as the hub (docs/how-to/fleet.md#one-process-leads).
 * A holder that cannot reach the database waits. The row tells it later whether another process has led since.
 */
export class HubLease {
  readonly #options: HubLeaseOptions;
  #session: Session | undefined;
  #epoch: number | undefined;
  #seen = { row: '', owner: '', since: 0 };
  #renewedAt = -Infinity;
  #answeredAt = -Infinity;
  #problem = '';

  constructor(options: HubLeaseOptions) {
    this.#options = options;
  }

  /** Who holds the row, when the database answered (monotonic milliseconds), and why it does not; texts may be empty. */
  get seen(): { readonly owner: string; readonly at: number; readonly problem: string } {
    return { owner: this.#seen.owner, at: this.#answeredAt, problem: this.#problem };
  }

  /** Whether this process holds the row and renewed it less than `ms` ago, by default 10 s. It reads the clock with each call. */
  isTrusted(ms: number = TIMES.trust): boolean {
    return this.#epoch !== undefined && this.#options.clock.monotonic() - this.#renewedAt < ms;
  }

  /**
   * Works whenever this process holds the row, until the signal is aborted. The signal of the work is aborted as well when
   * another process has the row. Rejects with what the work throws.
   */
  async run(
    signal: AbortSignal,
    work: (epoch: number, signal: AbortSignal) => Promise<void>,
  ): Promise<void> {
    const { owner, clock } = this.#options;
    const pause = (until: AbortSignal) => clock.sleep(TIMES.retry, until).catch(() => undefined);
    while (!signal.aborted) {
      await this.#attempt();
      const epoch = this.#epoch;
      if (epoch === undefined) await pause(signal);
      if (epoch === undefined) continue;
      const [lost, ended] = [new AbortController(), new AbortController()];
      const working = work(epoch, AbortSignal.any([signal, lost.signal]));
      void working.catch(() => undefined).finally(() => ended.abort());
      while (this.#epoch === epoch && !ended.signal.aborted) {
        await pause(ended.signal);
        if (!ended.signal.aborted) await this.#attempt();
      }
      lost.abort();
      try {
        await working;
      } finally {
        const isHeld = this.#epoch === epoch;
        if (isHeld) await this.#write('', 0, [owner, epoch, null]).catch(() => undefined);
        this.#epoch = undefined;
      }
    }
    await this.#session?.end();
  }

  async #attempt(): Promise<void> {
    const before = this.#problem;
    this.#problem = await this.#slice().then(() => '', errorText);
    if (this.#problem !== '') {
      this.#session?.destroy();
      // Whoever cannot read the row does not see that it is renewed.
      this.#seen = { ...this.#seen, row: '' };
    }
    const stated = this.#problem === '' ? 'the database answers again' : this.#problem;
    if (this.#problem !== before) this.#options.logger.warn(`[hub] ${stated}`);
  }

  /** Renews the row, claims one that is free, or finds that another process has it. */
  async #slice(): Promise<void> {
    const { owner, clock, logger } = this.#options;
    const sentAt = clock.monotonic();
    const session = await this.#connected();
    const [found] = await session.run([{ text: 'select * from meterfeed_hub.lease', values: [] }]);
    const { owner: holder, epoch, renewals } = found?.rows[0] ?? {};
    this.#answeredAt = clock.monotonic();
    const row = `${holder} ${epoch} ${renewals}`;
    if (row !== this.#seen.row) this.#seen = { row, owner: holder ?? '', since: this.#answeredAt };
    const isOwn = holder === owner && Number(epoch) === this.#epoch;
    if (this.#epoch !== undefined && !isOwn) {
      this.#epoch = undefined;
      return;
    }
    const isFree = holder === '' || this.#answeredAt - this.#seen.since >= TIMES.expiry;
    if (!isFree && holder !== owner) return;
    const written = await this.#write(owner, isOwn ? 0 : 1, [holder, epoch, renewals]);
    if (written === undefined) return;
    this.#epoch = Number(written['epoch']);
    this.#renewedAt = sentAt;
    if (!isOwn) logger.info(`[hub] this process leads, epoch ${this.#epoch}`);
  }

  /** Waits for a synchronous standby as well: a primary that was cut off from its standby keeps no leader. */
  async #write(owner: string, raise: 0 | 1, seen: readonly unknown[]): Promise<Row | undefined> {
    const session = await this.#connected();
    const text = `update meterfeed_hub.lease set owner = $1, epoch = epoch + $2,
        renewals = renewals + 1
      where owner = $3 and epoch = $4 and renewals = coalesce($5, renewals) returning epoch`;
    const begin = { text: beginText(TIMES.lock) };
    const [, written] = await session.run([begin, { text, values: [owner, raise, ...seen] }]);
    await commit(session);
    return written?.rows[0];
  }

  async #connected(): Promise<Session> {
    if (this.#session?.usable() === true) return this.#session;
    const session = await openSession(this.#options.database, TIMES.answer);
    this.#session = session;
    await migrateHub(session);
    return session;
  }
}
