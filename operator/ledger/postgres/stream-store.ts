import type { LedgerDatabase, LedgerDurability } from '../../settings/settings.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { HeadWaiters } from '../head-waiters.ts';
import { type LedgerFailure, LedgerReadError } from '../ledger.ts';
import type { WriteRequestOutcome } from '../writer.ts';
import { recordTable } from './entries.ts';
import { FencedWriter, type Work, type FencedOutcome } from './fenced-writer.ts';
import { lookUpStatements, storedById } from './find-stored.ts';
import type { LedgerStore, RecordPlace } from './ledger-store.ts';
import { type StreamBatchPlan, planBatch, type PostgresRequest } from './plan-batch.ts';
import type { RunQuery } from './readers.ts';
import { wentBack } from './refusals.ts';
import type { DatabaseRow, Session, Statement } from './session.ts';
import { type StreamContents, stateOf, STREAM_COLUMNS, type StreamView } from './state.ts';
import { writeBatch } from './write-batch.ts';

/** A stream for its operator. Only this class writes it. */
export class StreamStore implements LedgerStore {
  readonly heads: HeadWaiters;
  readonly #options;
  readonly #writer: FencedWriter;
  #contents: StreamContents;

  constructor(options: {
    readonly database: LedgerDatabase;
    readonly durability: LedgerDurability;
    readonly schema: string;
    readonly owner: string;
    /** The stream's contents when this process took over; it has this process's epoch. */
    readonly contents: StreamContents;
    readonly query: RunQuery;
    readonly clock: Pick<Clock, 'now'>;
    readonly answerMs: number;
    readonly onConflict: (event: UsageEvent) => void;
    readonly onError: (failure: LedgerFailure) => void;
  }) {
    const { schema, contents } = options;
    const { epoch, lastBatch } = contents.state;
    this.#options = options;
    this.#contents = contents;
    this.heads = new HeadWaiters(contents.state.head);
    this.#writer = new FencedWriter({
      ...options,
      row: { table: `${schema}.stream`, where: 'only_row', columns: STREAM_COLUMNS },
      epoch,
      lastBatch,
      differs: (row) => this.#differs(row),
    });
  }

  contents(): StreamContents {
    return this.#contents;
  }

  view(): StreamView {
    const { schema, query } = this.#options;
    return { schema, contents: this.#contents, query };
  }

  async write(requests: readonly PostgresRequest[]): Promise<readonly WriteRequestOutcome[]> {
    const { schema, onConflict, clock } = this.#options;
    const offered = requests.flatMap((request) =>
      request.kind === 'append' ? request.events : [],
    );
    const now = clock.now();
    const outcome = await this.#writer.write<StreamBatchPlan>({
      also: () => lookUpStatements(schema, offered, this.#contents.segments),
      run: async (session, _, found) => {
        const before = this.#contents;
        const rows = found.flatMap((result) => result.rows);
        const plan = planBatch(requests, before, storedById(rows, offered));
        if (changesNothing(plan, before)) return { result: plan, stored: undefined };
        const next = this.#writer.next();
        const after = await writeBatch(session, { schema, before, plan, ...next, now });
        return { result: plan, stored: () => this.#become(after) };
      },
    });
    if (outcome.kind === 'failed') return requests.map(() => outcome);
    for (const event of outcome.result.conflicts) onConflict(event);
    return outcome.result.outcomes;
  }

  /**
   * Changes the stream other than by a batch, in a separate transaction. `work` receives this
   * process's epoch and returns the new contents, or undefined if there is nothing to commit.
   */
  change(
    work: (session: Session, epoch: number) => Promise<StreamContents | undefined>,
  ): Promise<FencedOutcome<boolean>> {
    const { schema } = this.#options;
    return this.#writer.write<boolean>({
      run: async (session): Promise<Work<boolean>> => {
        const { epoch, lastBatch } = this.#writer.next();
        const changed = await work(session, epoch);
        if (changed === undefined) return { result: false, stored: undefined };
        await session.run([
          {
            text: `update ${schema}.stream set last_batch = $2 where epoch = $1`,
            values: [epoch, lastBatch],
            rows: 1,
          },
        ]);
        const after = { ...changed, state: { ...changed.state, epoch, lastBatch } };
        return { result: true, stored: () => this.#become(after) };
      },
    });
  }

  /** Runs statements for other tables in a transaction. LedgerReadError if perhaps not stored. */
  async run(statements: readonly Statement[]): Promise<void> {
    const outcome = await this.change(async (session) => {
      await session.run(statements);
      return this.#contents;
    });
    if (outcome.kind === 'failed') throw new LedgerReadError(outcome);
  }

  recordsAt(key: string): RecordPlace {
    return { table: recordTable(this.#options.schema, key), before: '' };
  }

  async close(): Promise<void> {
    this.heads.end(new Error('ledger: closed'));
    await this.#writer.close();
  }

  #become(contents: StreamContents): void {
    this.#contents = contents;
    this.heads.advance(contents.state.head);
  }

  #differs(row: DatabaseRow): LedgerFailure | undefined {
    const { state } = this.#contents;
    const found = stateOf(row);
    if (found.head === state.head && found.chain === state.chain) return undefined;
    const head = { known: state.head, found: found.head };
    return wentBack(state.lastBatch, found.lastBatch, head);
  }
}

function changesNothing(plan: StreamBatchPlan, { state }: StreamContents): boolean {
  return (
    plan.head === state.head &&
    plan.accepted.length === 0 &&
    plan.records.size === 0 &&
    plan.cursors.size === 0 &&
    plan.lastWindowEnd === state.lastWindowEnd
  );
}
