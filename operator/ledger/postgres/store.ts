import pLimit from 'p-limit';
import type { LedgerDatabase, LedgerDurability } from '../../config/settings.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { type LedgerFailure, LedgerReadError } from '../ledger.ts';
import type { RequestOutcome } from '../writer.ts';
import { BatchWriter } from './batch-writer.ts';
import { goesOn } from './continuity.ts';
import type { StreamView } from './decode-rows.ts';
import { toLedgerFailure } from './failures.ts';
import { KnownStream, type KnownStreamOptions, LOCK_TIMEOUT_MS } from './known-stream.ts';
import type { PostgresRequest } from './plan-batch.ts';
import type { Reads } from './readers.ts';
import { FORGOTTEN, wentBack } from './refusals.ts';
import type { SeriesCache } from './series-cache.ts';
import type { Session } from './session.ts';
import { type Contents, readContents, readContentsNow } from './state.ts';
import { beginText, commit, rollback } from './transaction.ts';
import { WriterSession } from './writer-session.ts';
import { forgetWriter, touchIdleWriter, touchWriter } from './writers.ts';

/** A stream, and the only place of this process that writes to it: one transaction at a time. */
export interface Store {
  contents(): Contents;
  view(): StreamView;
  /** Writes one batch. What became of a commit that was not confirmed is found out before anything else is written. */
  write(requests: readonly PostgresRequest[]): Promise<readonly RequestOutcome[]>;
  /** Runs something else of the meter on the writer's connection, between two batches; then reads what there is. */
  between<T>(work: (session: Session) => Promise<T>): Promise<T>;
  /** Makes this process the meter, whose events have this REGION: whoever was it before is refused from now on. Gives why it could not. */
  lead(region: string): Promise<LedgerFailure | undefined>;
  /** Reads what other processes have written. Gives why it could not. */
  refresh(): Promise<LedgerFailure | undefined>;
  close(): Promise<void>;
}

export interface StoreOptions extends KnownStreamOptions {
  readonly database: LedgerDatabase;
  readonly durability: LedgerDurability;
  readonly series: SeriesCache;
  readonly reads: Reads;
  readonly clock: Clock;
  /** How long the server may take to answer, a commit's wait for the standby included. */
  readonly answerMs: number;
  readonly onConflict: (event: UsageEvent) => void;
}

export function createStore(options: StoreOptions): Store {
  return new StreamStore(options);
}

class StreamStore implements Store {
  readonly #options: StoreOptions;
  readonly #known: KnownStream;
  readonly #session: WriterSession;
  readonly #batches: BatchWriter;
  readonly #oneAtATime = pLimit(1);

  constructor(options: StoreOptions) {
    this.#options = options;
    this.#known = new KnownStream(options);
    const known = this.#known;
    this.#session = new WriterSession({ ...options, known });
    const session = this.#session;
    this.#batches = new BatchWriter({ ...options, known, session, view: () => this.view() });
  }

  contents(): Contents {
    return this.#known.contents();
  }

  view(): StreamView {
    const { series, reads } = this.#options;
    return { contents: this.#known.contents(), series, query: reads.query, copyOut: reads.copyOut };
  }

  write(requests: readonly PostgresRequest[]): Promise<readonly RequestOutcome[]> {
    return this.#oneAtATime(() => this.#batches.write(requests));
  }

  between<T>(work: (session: Session) => Promise<T>): Promise<T> {
    return this.#oneAtATime(async () => {
      const refused = (await this.#session.unresolved()) ?? this.#known.notMeter();
      if (refused !== undefined) throw new LedgerReadError(refused);
      const session = await this.#session.connected();
      try {
        const result = await work(session);
        this.#batches.forgetDays();
        const { stream } = this.#known.contents().state;
        await session.run([touchIdleWriter(stream, this.#options.owner)]);
        this.#known.read(await readContentsNow(session, stream));
        const taken = this.#known.notMeter();
        if (taken !== undefined) throw new LedgerReadError(taken);
        return result;
      } catch (error) {
        session.destroy();
        throw error;
      }
    });
  }

  lead(region: string): Promise<LedgerFailure | undefined> {
    return this.#alone('taking the stream over', async (session) => {
      const { owner } = this.#options;
      const { stream } = this.#known.contents().state;
      await session.run([
        { text: beginText(LOCK_TIMEOUT_MS) },
        {
          text: `update meterfeed.stream set epoch = epoch + 1, owner = $2, region = $3
            where stream = $1`,
          values: [stream, owner, region],
          rows: 1,
        },
      ]);
      const found = await readContents(session, stream);
      if (!(await goesOn(session, this.#known.contents().state, found))) {
        await rollback(session);
        return this.#known.stop(wentBack(this.#known.contents().state, found.state));
      }
      await commit(session);
      this.#known.led(found);
      return undefined;
    });
  }

  refresh(): Promise<LedgerFailure | undefined> {
    return this.#alone('reading what is stored', async (session) => {
      const { state } = this.#known.contents();
      const found = await this.#readLasting(session);
      if (found === undefined) return this.#known.stop(FORGOTTEN);
      if (!(await goesOn(session, state, found))) {
        return this.#known.stop(wentBack(state, found.state));
      }
      this.#known.read(found);
      return undefined;
    });
  }

  /**
   * What is stored for good, whoever has written it: another process's commit whose wait for a standby was cut short can be seen, and is gone after a
   * failover. So it is read with a write of our own, which is confirmed only after all that is visible before. Undefined
   * where the stream does not know this process.
   */
  async #readLasting(session: Session): Promise<Contents | undefined> {
    const { owner, durability } = this.#options;
    const { stream } = this.#known.contents().state;
    if (durability === 'storage') return readContentsNow(session, stream);
    const [, touched] = await session.run([
      { text: beginText(LOCK_TIMEOUT_MS, 'repeatable read') },
      touchWriter(stream, owner),
    ]);
    const found = await readContents(session, stream);
    await commit(session);
    return touched?.rows.length === 0 ? undefined : found;
  }

  async close(): Promise<void> {
    await this.#oneAtATime(async () => {
      const { stream } = this.#known.contents().state;
      await this.#session.end((session) => session.run(forgetWriter(stream, this.#options.owner)));
    });
  }

  /** Runs something between two batches, once it is known what became of the last one. */
  #alone(
    what: string,
    work: (session: Session) => Promise<LedgerFailure | undefined>,
  ): Promise<LedgerFailure | undefined> {
    return this.#oneAtATime(async () => {
      const unresolved = await this.#session.unresolved();
      if (unresolved !== undefined) return unresolved;
      let session: Session | undefined;
      try {
        session = await this.#session.connected();
        return await work(session);
      } catch (error) {
        session?.destroy();
        return this.#known.told(toLedgerFailure(what, error));
      }
    });
  }
}
