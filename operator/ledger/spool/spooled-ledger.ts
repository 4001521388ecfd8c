import pLimit from 'p-limit';
import { errorText } from '../../model/error-text.ts';
import { omitUndefined } from '../../model/omit-undefined.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { ledgerFailure } from '../failures.ts';
import type {
  AppendBatch,
  AppendOutcome,
  Ledger,
  LedgerFailure,
  LedgerStats,
  WriteOutcome,
} from '../ledger.ts';
import type { MeterLedger, Spooling } from '../meter-ledger.ts';
import { PendingRecords } from './pending-records.ts';
import { batchBytes, type Spool, type SpooledBatch } from './spool.ts';
import type { SpoolDirectory } from './spool-directory.ts';
import { stateOf } from './stream-position.ts';
import { takeUp } from './take-up.ts';

/** The meter's way into a database that may be away: through a spool then, until all of it has followed. */
export interface SpooledLedger extends MeterLedger {
  readonly spooling: Spooling;
  /**
   * Takes up what an earlier process has left: once this process is the meter, before anything is read or written
   * through this. Until then nothing is spooled.
   */
  begin(): Promise<WriteOutcome>;
  /** What waits, for metrics. */
  waiting(): SpoolFigures;
  /** Brings what waits into the database whenever it can be reached, until the signal is aborted. Rejects when it never can. */
  run(signal: AbortSignal): Promise<void>;
  /** Waits for the write under way. The database is closed by whoever opened it. */
  close(): Promise<void>;
}

export interface SpoolFigures {
  readonly batches: number;
  readonly bytes: number;
  readonly limitBytes: number;
}

export interface SpooledLedgerOptions {
  /** The database's, by the right of the meter. */
  readonly ledger: MeterLedger;
  readonly directory: SpoolDirectory;
  /** LEDGER_SPOOL_SIZE; 0 for none. */
  readonly limitBytes: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

const FIRST_DELAY_MS = 500;
const MAX_DELAY_MS = 5_000;

/**
 * Writes go to the database one after the other. One that the database does not acknowledge goes into the spool, and
 * so does everything after it until the spool is empty, so that the order stays. Whatever of it the database has after
 * all is recognised there by its ids; records are set to what they are.
 */
export function createSpooledLedger(options: SpooledLedgerOptions): SpooledLedger {
  return new DrainedLedger(options);
}

class DrainedLedger implements SpooledLedger {
  readonly spooling: Spooling;
  readonly #options: SpooledLedgerOptions;
  readonly #ledger: MeterLedger;
  readonly #oneAtATime = pLimit(1);
  readonly #pending = new PendingRecords();
  /** There while anything waits, or it could not be deleted. */
  #spool: Spool | undefined;
  /** Where the database is; undefined before the beginning. */
  #state: string | undefined;
  #drainedTo = 0;
  /** The end of the newest window that waits or waited. */
  #lastWindowEnd: number | undefined;
  /** Why nothing can be written any more. */
  #ended: LedgerFailure | undefined;
  #said = '';

  constructor(options: SpooledLedgerOptions) {
    this.#options = options;
    this.#ledger = options.ledger;
    this.spooling = {
      isEmpty: () => (this.#spool?.size() ?? 0) === 0,
      drainedTo: () => this.#drainedTo,
    };
  }

  async begin(): Promise<WriteOutcome> {
    const taken = await takeUp(this.#options);
    if (taken.kind === 'failed') return taken;
    for await (const { number, records, windowEnd } of taken.spool?.waiting() ?? []) {
      this.#await(number, { events: [], records, ...omitUndefined({ windowEnd }) });
    }
    this.#spool = taken.spool;
    this.#state = taken.state;
    return { kind: 'written' };
  }

  readonly append: Ledger['append'] = (batch) => this.#oneAtATime(() => this.#append(batch));

  readonly writeRecords: Ledger['writeRecords'] = async (records) => {
    const outcome = await this.append({ events: [], records });
    return outcome.kind === 'failed' ? outcome : { kind: 'written' };
  };

  readonly record: Ledger['record'] = async (key) => {
    const pending = this.#pending.find(key);
    return pending === undefined ? this.#ledger.record(key) : pending.value;
  };

  readonly records: Ledger['records'] = (prefix) =>
    this.#pending.over(this.#ledger.records(prefix), prefix);

  readonly stats = (): LedgerStats => {
    const stats = this.#ledger.stats();
    const ends = [stats.lastWindowEnd, this.#lastWindowEnd].filter((end) => end !== undefined);
    return ends.length === 0 ? stats : { ...stats, lastWindowEnd: Math.max(...ends) };
  };

  waiting(): SpoolFigures {
    return {
      batches: this.#spool?.size() ?? 0,
      bytes: this.#spool?.bytes() ?? 0,
      limitBytes: this.#options.limitBytes,
    };
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    let delay = FIRST_DELAY_MS;
    while (!signal.aborted) {
      const failure = await this.#drain(signal);
      if (failure !== undefined && !isAway(failure)) throw new Error(this.#end(failure).message);
      delay = failure === undefined ? FIRST_DELAY_MS : Math.min(delay * 2, MAX_DELAY_MS);
      await clock.sleep(delay, signal).catch(() => undefined);
    }
  }

  async close(): Promise<void> {
    await this.#oneAtATime(async () => {
      this.#ended ??= ledgerFailure('retryable', 'ledger: closed');
      await this.#spool?.close();
    });
  }

  async #append(batch: AppendBatch): Promise<AppendOutcome> {
    if (this.#ended !== undefined) return this.#ended;
    const state = this.#state;
    if (state === undefined) return this.#ledger.append(batch);
    if (this.#spool !== undefined) return this.#put(this.#spool, batch, state);
    const outcome = await this.#ledger.append(batch);
    if (outcome.kind === 'appended') {
      this.#state = stateOf(batch.records) ?? state;
      return outcome;
    }
    return isAway(outcome) ? this.#makeSpool(batch, state, outcome) : outcome;
  }

  /** The first batch that the database has not acknowledged; where it cannot be spooled, it waits as it would without one. */
  async #makeSpool(batch: AppendBatch, state: string, away: LedgerFailure): Promise<AppendOutcome> {
    const { directory, limitBytes, logger } = this.#options;
    if (batchBytes(batch) > limitBytes) return away;
    const opened = await directory.open();
    if (opened.kind === 'failed') {
      this.#say(`the spool cannot be made: ${opened.message}`);
      return away;
    }
    const { spool } = opened;
    const outcome = await this.#put(spool, batch, state);
    if (outcome.kind === 'failed') {
      this.#say(`the spool takes nothing: ${outcome.message}`);
      await spool.close();
      // What stays of it is gone on with.
      await directory.remove().catch(() => undefined);
      return away;
    }
    this.#spool = spool;
    logger.warn(`[ledger] the database is away: windows go to ${directory.path} until it is back`, {
      reason: away.message,
    });
    return outcome;
  }

  async #put(spool: Spool, batch: AppendBatch, state: string): Promise<AppendOutcome> {
    const { limitBytes, directory } = this.#options;
    if (spool.bytes() + batchBytes(batch) > limitBytes) {
      const text = `${directory.path}: no room in the spool, LEDGER_SPOOL_SIZE: "${limitBytes}"`;
      const full = ledgerFailure('full', `ledger: ${text}; windows wait for the database`);
      this.#say(full.message);
      return full;
    }
    const { ledgerId } = this.#ledger.stats();
    const outcome = await spool.append(batch, { ledgerId, state });
    if (outcome.kind === 'appended') this.#await(spool.newest(), batch);
    return outcome;
  }

  #await(number: number, { records, windowEnd = -Infinity }: AppendBatch): void {
    this.#pending.add(number, records);
    const newest = Math.max(this.#lastWindowEnd ?? -Infinity, windowEnd);
    if (newest > -Infinity) this.#lastWindowEnd = newest;
  }

  /** Writes what waits, oldest first; gives why it could not go on. */
  async #drain(signal: AbortSignal): Promise<LedgerFailure | undefined> {
    while (!signal.aborted && this.#spool !== undefined) {
      const batch = await this.#spool.oldest();
      if (batch === undefined) return this.#oneAtATime(() => this.#finish());
      if ('kind' in batch) return batch;
      const { events, records, windowEnd } = batch;
      const outcome = await this.#ledger.append({
        events,
        records,
        ...omitUndefined({ windowEnd }),
      });
      if (outcome.kind === 'failed') return outcome;
      const passed = await this.#oneAtATime(() => this.#passed(batch, outcome.head));
      if (passed.kind === 'failed') return passed;
    }
    return undefined;
  }

  /** The database has a batch. */
  async #passed(batch: SpooledBatch, head: number): Promise<WriteOutcome> {
    if (this.#spool === undefined || this.#ended !== undefined) return { kind: 'written' };
    const outcome = await this.#spool.drained(batch);
    if (outcome.kind === 'failed') return outcome;
    this.#pending.drop(batch.number, batch.records);
    this.#state = stateOf(batch.records) ?? this.#state;
    this.#drainedTo = head;
    return outcome;
  }

  /** Everything has followed: from now on the database is written directly. */
  async #finish(): Promise<LedgerFailure | undefined> {
    const { directory, logger } = this.#options;
    const spool = this.#spool;
    if (spool === undefined || spool.size() > 0 || this.#ended !== undefined) return undefined;
    try {
      await spool.close();
      await directory.remove();
    } catch (error) {
      const what = `${directory.path}: cannot be deleted: ${errorText(error)}`;
      return this.#end(ledgerFailure('corrupt', `ledger: ${what}`));
    }
    this.#spool = undefined;
    this.#said = '';
    logger.info('[ledger] the database is back, and has everything that was in the spool');
    return undefined;
  }

  #end(failure: LedgerFailure): LedgerFailure {
    this.#ended ??= failure;
    return failure;
  }

  /** Once for each thing in a row: whoever is refused tries again. */
  #say(text: string): void {
    if (this.#said !== text) this.#options.logger.error(`[ledger] ${text}`);
    this.#said = text;
  }
}

/** Whether the database is only away for a time. */
function isAway({ cause }: LedgerFailure): boolean {
  return cause === 'retryable' || cause === 'full';
}
