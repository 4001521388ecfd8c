import type { LedgerDatabase } from '../../settings/settings.ts';
import { errorText } from '../../model/error-text.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { migrateHub } from './hub-tables.ts';
import { openSession, type DatabaseRow, type Session } from './session.ts';
import { beginText, commit } from './transaction.ts';

/** Milliseconds by the waiting process's monotonic clock, so no two clocks are compared. */
const TIMES = { expiry: 15_000, trust: 10_000, retry: 2_000, answer: 3_000, lock: 1_000 };

/** Reads the current epoch; the next holder waits for the end of the transaction. */
export const LOCK_HUB_LEASE = 'select epoch from meterfeed_hub.lease for key share';

/**
 * The lease row `meterfeed_hub.lease` of a database: its holder acts there as the hub
 * (docs/how-to/fleet.md#one-process-leads). A holder that cannot reach the database waits; later
 * the row shows whether another process has led meanwhile.
 */
export class HubLease {
  readonly #options;
  #session: Session | undefined;
  #epoch: number | undefined;
  #seen = { row: '', owner: '', since: 0 };
  #renewedAt = -Infinity;
  #answeredAt = -Infinity;
  #problem = '';

  constructor(options: {
    readonly database: LedgerDatabase;
    /** Unique for this process. */
    readonly owner: string;
    readonly clock: Clock;
    readonly logger: Logger;
  }) {
    this.#options = options;
  }

  /**
   * The holder of the row, the time of the last answer (monotonic milliseconds) and the current
   * problem; texts may be empty.
   */
  get seen(): { readonly owner: string; readonly at: number; readonly problem: string } {
    return { owner: this.#seen.owner, at: this.#answeredAt, problem: this.#problem };
  }

  /**
   * Whether this process holds the row and renewed it less than `ms` ago (10 s by default). Each
   * call reads the monotonic clock.
   */
  isTrusted(ms: number = TIMES.trust): boolean {
    return this.#epoch !== undefined && this.#options.clock.monotonic() - this.#renewedAt < ms;
  }

  /**
   * Runs `work` whenever this process holds the row, until the signal is aborted. The work's signal
   * is also aborted when another process gets the row. Rejects with the work's error.
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
        const isHolder = this.#epoch === epoch;
        if (isHolder) await this.#write('', 0, [owner, epoch, null]).catch(() => undefined);
        this.#epoch = undefined;
      }
    }
    await this.#session?.end();
  }

  async #attempt(): Promise<void> {
    const before = this.#problem;
    this.#problem = await this.#renewOrClaim().then(() => '', errorText);
    if (this.#problem !== '') {
      this.#session?.destroy();
      // Without an answer this process cannot know that nobody renewed.
      this.#seen = { ...this.#seen, row: '' };
    }
    const news = this.#problem === '' ? 'the database answers again' : this.#problem;
    if (this.#problem !== before) this.#options.logger.warn(`[hub] ${news}`);
  }

  /** Renews the row, claims a free one, or detects that another process has it. */
  async #renewOrClaim(): Promise<void> {
    const { owner, clock, logger } = this.#options;
    const sentAt = clock.monotonic();
    const session = await this.#connected();
    const [found] = await session.run([{ text: 'select * from meterfeed_hub.lease', values: [] }]);
    const { owner: holder, epoch, renewals } = found?.rows[0] ?? {};
    this.#answeredAt = clock.monotonic();
    const row = `${holder} ${epoch} ${renewals}`;
    if (row !== this.#seen.row) this.#seen = { row, owner: holder ?? '', since: this.#answeredAt };
    const isOurs = holder === owner && Number(epoch) === this.#epoch;
    if (this.#epoch !== undefined && !isOurs) {
      this.#epoch = undefined;
      return;
    }
    const isFree = holder === '' || this.#answeredAt - this.#seen.since >= TIMES.expiry;
    if (!isFree && holder !== owner) return;
    const written = await this.#write(owner, isOurs ? 0 : 1, [holder, epoch, renewals]);
    if (written === undefined) return;
    this.#epoch = Number(written['epoch']);
    this.#renewedAt = sentAt;
    if (!isOurs) logger.info(`[hub] this process leads, epoch ${this.#epoch}`);
  }

  /** Writes the row. The commit waits for a synchronous standby: without it the leader is lost. */
  async #write(
    owner: string,
    raise: 0 | 1,
    seen: readonly unknown[],
  ): Promise<DatabaseRow | undefined> {
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
