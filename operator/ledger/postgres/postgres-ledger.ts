import type { LedgerDurability } from '../../config/settings.ts';
import { omitUndefined } from '../../model/omit-undefined.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { compareWithAnchor } from '../anchor.ts';
import { planCommit, planMove, planRetire } from '../cursor-moves.ts';
import type { Problems } from '../failures.ts';
import { createHeadWaiters, type HeadWaiters } from '../head-waiters.ts';
import type { Ledger, LedgerStats, WriteOutcome } from '../ledger.ts';
import type { LedgerMetrics } from '../ledger-metrics.ts';
import {
  createWriter,
  encodeEvents,
  type Request,
  type RequestOutcome,
  type Writer,
} from '../writer.ts';
import type { Fence } from './fences.ts';
import type { PostgresRequest } from './plan-batch.ts';
import { type Look, lookTogether, pollStream } from './poll.ts';
import type { Readers } from './readers.ts';
import {
  chainAt,
  findEvent,
  reading,
  readPage,
  readRecord,
  readRecords,
  scanEvents,
} from './reading.ts';
import { createRetention, type Retain } from './retention.ts';
import type { Store } from './store.ts';
import { verifyStream } from './verify.ts';

export interface PostgresLedgerParts {
  readonly retentionMs: number;
  readonly durability: LedgerDurability;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly store: Store;
  readonly readers: Readers;
  readonly problems: Problems;
  readonly metrics: LedgerMetrics;
  /** Other processes write the stream as well. */
  readonly shared: boolean;
  /** How to find out that they have; by default this one looks for itself. */
  readonly look?: Look;
}

/** A stream that this process writes, as the ledger of whoever writes by a right of its own. Closing one closes all. */
export type LedgerBy = (fence: Fence) => Ledger;

export function createPostgresLedger(parts: PostgresLedgerParts): LedgerBy {
  const core = new LedgerCore(parts);
  return (fence) => new PostgresLedger(core, fence);
}

/** What all ledgers over one stream share. */
class LedgerCore {
  readonly parts: PostgresLedgerParts;
  readonly writer: Writer<PostgresRequest>;
  readonly waiters: HeadWaiters;
  readonly retain: Retain;
  retentionMs: number;
  bytes = 0;
  standbyMissing = false;
  readonly #ending = new AbortController();
  #polling: Promise<void> | undefined;
  #closing: Promise<void> | undefined;

  constructor(parts: PostgresLedgerParts) {
    const { store } = parts;
    this.parts = parts;
    this.writer = createWriter<PostgresRequest>((requests) => store.write(requests));
    this.waiters = createHeadWaiters(store.contents().state.head);
    this.retain = createRetention(parts);
    this.retentionMs = parts.retentionMs;
    parts.metrics.observe(() => this.stats());
    if (parts.shared) this.#polling = this.#poll();
  }

  #poll(): Promise<void> {
    const { store, readers, clock } = this.parts;
    const { stream } = store.contents().state;
    const { look = lookTogether(readers.query, clock, stream) } = this.parts;
    const onChange = (): void => this.waiters.advance(store.contents().state.head);
    return pollStream({ store, look, onChange }, this.#ending.signal);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const { metrics, readers, store } = this.parts;
    await this.writer.stop();
    this.#ending.abort();
    await this.#polling;
    this.waiters.end(new Error('ledger: closed'));
    metrics.close();
    await store.close();
    await readers.end();
  }

  stats(): LedgerStats {
    const { metrics, problems, clock, store, durability } = this.parts;
    const { state, segments } = store.contents();
    return {
      ledgerId: state.ledgerId,
      sequence: state.head,
      bytes: this.bytes,
      segments: segments.length,
      chain: state.chain,
      ...omitUndefined({ lastWindowEnd: state.lastWindowEnd }),
      oldestAt: segments[0]?.openedAt ?? Math.max(state.createdAt, state.horizon),
      retentionMs: this.retentionMs,
      ...(durability === 'standby' && { standbyMissing: this.standbyMissing }),
      conflicts: metrics.conflicts(),
      horizon: state.horizon,
      problems: problems.list(),
      disk: {
        level: 'normal',
        usedRatio: 0,
        retentionShortened: state.horizon > clock.now() - this.retentionMs,
      },
    };
  }
}

/** What is public is bound to it, so that it may be handed out one by one. */
class PostgresLedger implements Ledger {
  readonly #core: LedgerCore;
  readonly #fence: Fence;
  readonly #parts: PostgresLedgerParts;
  readonly #store: Store;

  constructor(core: LedgerCore, fence: Fence) {
    this.#core = core;
    this.#fence = fence;
    this.#parts = core.parts;
    this.#store = core.parts.store;
  }

  readonly append: Ledger['append'] = async ({ events, records = [], windowEnd }) => {
    const { clock, metrics } = this.#parts;
    const startedAt = clock.monotonic();
    const outcome = await this.#submit(
      { kind: 'append', events: encodeEvents(events), records, ...omitUndefined({ windowEnd }) },
      windowEnd === undefined,
    );
    if (outcome.kind === 'appended') {
      const accepted = outcome.outcomes.filter((word) => word === 'accepted').length;
      const duplicates = outcome.outcomes.filter((word) => word === 'duplicate').length;
      metrics.appended(accepted, duplicates, (clock.monotonic() - startedAt) / 1_000);
    }
    return outcome;
  };

  readonly read: Ledger['read'] = async (afterSequence, limit) => {
    const outcome = await readPage(this.#store.view(), afterSequence, limit);
    if (outcome.kind === 'failed' && outcome.cause === 'corrupt') {
      this.#parts.problems.add(outcome.message);
    }
    return outcome;
  };

  readonly scan: Ledger['scan'] = (from, to, signal) =>
    scanEvents(() => this.#store.view(), from, to, signal);

  readonly find: Ledger['find'] = (id) => findEvent(id, this.#store.view());

  readonly head = (): number => this.#store.contents().state.head;

  readonly lowWater = (): number => this.#store.contents().state.lowWater;

  readonly changed: Ledger['changed'] = (afterSequence, signal) =>
    this.#core.waiters.wait(afterSequence, signal);

  readonly cursors: Ledger['cursors'] = () => [...this.#store.contents().cursors.values()];

  readonly commitCursor: Ledger['commitCursor'] = (destination, sequence, { from, records } = {}) =>
    this.#write({
      kind: 'cursor',
      destination,
      ...omitUndefined({ records }),
      plan: (current, head) => planCommit(current, destination, sequence, head, from),
    });

  readonly moveCursor: Ledger['moveCursor'] = (destination, sequence) =>
    this.#write({
      kind: 'cursor',
      destination,
      plan: (_, head) => planMove(destination, sequence, head),
    });

  readonly retireCursor: Ledger['retireCursor'] = (destination, at) =>
    this.#write({
      kind: 'cursor',
      destination,
      plan: (current) => ({ kind: 'move', cursor: planRetire(current, at) }),
    });

  readonly dropCursor: Ledger['dropCursor'] = (destination) =>
    this.#write({ kind: 'cursor', destination, plan: () => 'drop' });

  readonly record: Ledger['record'] = (key) => readRecord(this.#store.view(), key);

  readonly records: Ledger['records'] = (prefix) => readRecords(() => this.#store.view(), prefix);

  readonly writeRecords: Ledger['writeRecords'] = (records) =>
    this.#write({ kind: 'append', events: [], records });

  readonly compareWith: Ledger['compareWith'] = (anchor) => {
    const { ledgerId } = this.#store.contents().state;
    const storage = {
      ledgerId,
      head: this.head(),
      chainAt: (sequence: number) => chainAt(this.#store.view(), sequence),
      skipTo: (head: number) => this.#skipTo(head),
    };
    return compareWithAnchor(anchor, storage, this.#parts.problems);
  };

  readonly retain: Ledger['retain'] = async (now) => {
    await this.#core.retain(now, this.#core.retentionMs);
    await this.#measure().catch(() => undefined);
  };

  readonly setRetention: Ledger['setRetention'] = (retentionMs) => {
    this.#core.retentionMs = retentionMs;
  };

  readonly verify: Ledger['verify'] = (signal) =>
    verifyStream(this.#store.view(), this.#parts.problems, signal);

  readonly stats: Ledger['stats'] = () => this.#core.stats();

  readonly close: Ledger['close'] = () => this.#core.close();

  /** Not through the queue, where events would come into the same batch. */
  async #skipTo(head: number): Promise<WriteOutcome> {
    const [outcome] = await this.#store.write([{ kind: 'skip', head }]);
    this.#core.waiters.advance(this.head());
    return outcome === undefined || outcome.kind === 'appended' ? { kind: 'written' } : outcome;
  }

  async #write(request: Request): Promise<WriteOutcome> {
    const outcome = await this.#submit(request, false);
    return outcome.kind === 'failed' ? outcome : { kind: 'written' };
  }

  async #submit(request: Request, bounded: boolean): Promise<RequestOutcome> {
    const fenced = { ...request, fence: this.#fence };
    const outcome = await this.#core.writer.submit(fenced, bounded);
    this.#core.waiters.advance(this.head());
    return outcome;
  }

  async #measure(): Promise<void> {
    const [row] = await reading(
      this.#parts.readers.query({
        // Only whoever may read all statistics is told which of the servers that follow are synchronous.
        text: `select sum(pg_total_relation_size(c.oid)) as bytes,
            current_setting('synchronous_standby_names') = '' or not exists (
              select from pg_stat_replication
                where coalesce(sync_state, 'sync') in ('sync', 'quorum')) as no_standby
          from pg_class c join pg_namespace n on n.oid = c.relnamespace
          where n.nspname = 'meterfeed' and c.relkind = 'r'`,
        values: [],
      }),
    );
    this.#core.bytes = Number(row?.['bytes'] ?? 0);
    this.#core.standbyMissing = row?.['no_standby'] === 't';
  }
}
