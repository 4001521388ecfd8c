import type { LedgerDurability } from '../../settings/settings.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { compareWithAnchor } from '../anchor.ts';
import type { Retain } from '../consumed-up-to.ts';
import type { Problems } from '../failures.ts';
import type { Ledger, LedgerStats, WriteOutcome } from '../ledger.ts';
import type { LedgerMetrics } from '../ledger-metrics.ts';
import { LedgerWrites } from '../ledger-writes.ts';
import { type Request, Writer, type WriteRequestOutcome } from '../writer.ts';
import type { LedgerStore } from './ledger-store.ts';
import type { PostgresRequest } from './plan-batch.ts';
import type { RunQuery } from './readers.ts';
import { readBatches } from './read-batches.ts';
import {
  chainAt,
  findEvent,
  reading,
  readPage,
  readRecord,
  readRecords,
  scanEvents,
} from './reading.ts';
import { verifyStream } from './verify.ts';

/** One stream's ledger, for its operator or a hub. Its bound methods can be passed on alone. */
export class PostgresLedger extends LedgerWrites implements Ledger {
  readonly #options;
  readonly #store: LedgerStore;
  readonly #writer: Writer<PostgresRequest>;
  #retentionMs: number;
  #bytes = 0;
  #standbyMissing = false;

  constructor(options: {
    readonly retentionMs: number;
    readonly durability: LedgerDurability;
    readonly clock: Clock;
    readonly store: LedgerStore;
    readonly query: RunQuery;
    readonly problems: Problems;
    readonly metrics: LedgerMetrics;
    readonly retain: Retain;
    /** Called when the ledger is closed. */
    readonly onClose: () => Promise<void>;
  }) {
    super(options);
    const { store, retentionMs, metrics } = options;
    this.#options = options;
    this.#store = store;
    this.#writer = new Writer<PostgresRequest>((requests) => store.write(requests));
    this.#retentionMs = retentionMs;
    metrics.observe(() => this.stats());
  }

  readonly read: Ledger['read'] = async (afterSequence, limit) => {
    const outcome = await readPage(this.#store.view(), afterSequence, limit);
    if (outcome.kind === 'failed' && outcome.cause === 'corrupt') {
      this.#options.problems.add(outcome.message);
    }
    return outcome;
  };

  readonly scan: Ledger['scan'] = (from, to, signal) =>
    scanEvents(() => this.#store.view(), from, to, signal);

  readonly batches: Ledger['batches'] = (sequence, signal) =>
    readBatches(() => this.#store.view(), sequence, signal);

  readonly find: Ledger['find'] = (id) => findEvent(id, this.#store.view());

  readonly head = (): number => this.#store.contents().state.head;

  readonly lowWater = (): number => this.#store.contents().state.lowWater;

  readonly changed: Ledger['changed'] = (afterSequence, signal) =>
    this.#store.heads.wait(afterSequence, signal);

  readonly cursors: Ledger['cursors'] = () => [...this.#store.contents().cursors.values()];

  readonly record: Ledger['record'] = (key) =>
    readRecord(this.#options.query, this.#store.recordsAt(key), key);

  readonly records: Ledger['records'] = (prefix) =>
    readRecords(this.#options.query, this.#store.recordsAt(prefix), prefix);

  readonly compareWith: Ledger['compareWith'] = (anchor) => {
    const { ledgerId } = this.#store.contents().state;
    const storage = {
      ledgerId,
      head: this.head(),
      chainAt: (sequence: number) => chainAt(this.#store.view(), sequence),
      skipTo: (head: number) => this.#skipTo(head),
    };
    return compareWithAnchor(anchor, storage, this.#options.problems);
  };

  readonly retain: Ledger['retain'] = async (now) => {
    await this.#options.retain(now, this.#retentionMs);
    await this.#measure().catch(() => undefined);
  };

  readonly setRetention: Ledger['setRetention'] = (retentionMs) => {
    this.#retentionMs = retentionMs;
  };

  readonly verify: Ledger['verify'] = (signal) =>
    verifyStream(this.#store.view(), this.#options.problems, signal);

  readonly stats = (): LedgerStats => {
    const { metrics, problems, clock, durability } = this.#options;
    const { state, segments } = this.#store.contents();
    return {
      ledgerId: state.ledgerId,
      sequence: state.head,
      bytes: this.#bytes,
      segments: segments.length,
      chain: state.chain,
      lastWindowEnd: state.lastWindowEnd,
      oldestAt: segments[0]?.openedAt ?? Math.max(state.createdAt, state.horizon),
      retentionMs: this.#retentionMs,
      ...(durability === 'standby' && { standbyMissing: this.#standbyMissing }),
      conflicts: metrics.conflicts(),
      horizon: state.horizon,
      problems: problems.list(),
      disk: {
        level: 'normal',
        usedRatio: 0,
        retentionShortened: state.horizon > clock.now() - this.#retentionMs,
      },
    };
  };

  protected override async end(): Promise<void> {
    await this.#writer.stop();
    this.#options.metrics.close();
    await this.#store.close();
    await this.#options.onClose();
  }

  /** Bypasses the queue, which could put events into the same batch. */
  async #skipTo(head: number): Promise<WriteOutcome> {
    const [outcome] = await this.#store.write([{ kind: 'skip', head }]);
    return outcome === undefined || outcome.kind === 'appended' ? { kind: 'written' } : outcome;
  }

  protected override submit(request: Request, bounded: boolean): Promise<WriteRequestOutcome> {
    return this.#writer.submit(request, bounded);
  }

  async #measure(): Promise<void> {
    const [row] = await reading(
      this.#options.query({
        // Only a role that may read all statistics sees which standbys are synchronous.
        text: `select sum(pg_total_relation_size(c.oid)) as bytes,
            current_setting('synchronous_standby_names') = '' or not exists (
              select from pg_stat_replication
                where coalesce(sync_state, 'sync') in ('sync', 'quorum')) as no_standby
          from pg_class c join pg_namespace n on n.oid = c.relnamespace
          where n.nspname = $1 and c.relkind = 'r'`,
        values: [this.#store.view().schema],
      }),
    );
    this.#bytes = Number(row?.['bytes'] ?? 0);
    this.#standbyMissing = row?.['no_standby'] === 't';
  }
}
