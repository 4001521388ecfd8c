import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Retain } from '../consumed-up-to.ts';
import { HeadWaiters } from '../head-waiters.ts';
import {
  type DiskLevel,
  type Ledger,
  type LedgerFailure,
  LedgerReadError,
  type WriteOutcome,
} from '../ledger.ts';
import { compareWithAnchor } from '../anchor.ts';
import type { DiskGauge } from './disk-use.ts';
import type { Failpoints } from './failpoints.ts';
import { ledgerFailure, type Problems } from '../failures.ts';
import { toLedgerFailure } from './failures.ts';
import { findEvent } from './find-stored.ts';
import type { LedgerMetrics } from '../ledger-metrics.ts';
import { LedgerWrites } from '../ledger-writes.ts';
import type { PageStarts } from './page-starts.ts';
import type { LevelRequest } from './plan-batch.ts';
import { chainAt, readPage, readRecord, readRecords, scanEvents } from './reading.ts';
import { readBatches } from './read-batches.ts';
import { createRetention } from './retention.ts';
import type { Store } from './store.ts';
import { verifyLedger } from './verify.ts';
import { type WriteRequestOutcome, Writer } from '../writer.ts';

export interface LevelLedgerComponents {
  readonly directory: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly store: Store;
  readonly pages: PageStarts;
  readonly gauge: DiskGauge;
  readonly problems: Problems;
  readonly metrics: LedgerMetrics;
  readonly failpoint: Failpoints;
}

const DISK_INTERVAL_MS = 10_000;

/** The ledger over a checked store. Public methods are bound, so each can be passed on alone. */
export class LevelLedger extends LedgerWrites implements Ledger {
  readonly #components: LevelLedgerComponents;
  readonly #store: Store;
  readonly #writer: Writer<LevelRequest>;
  readonly #waiters: HeadWaiters;
  readonly #retain: Retain;
  #measuredAt: number;

  constructor(components: LevelLedgerComponents) {
    super(components);
    const { store, metrics, clock } = components;
    this.#components = components;
    this.#store = store;
    this.#writer = new Writer<LevelRequest>((requests) => store.write(requests));
    this.#waiters = new HeadWaiters(this.head());
    this.#retain = createRetention({
      ...components,
      submit: (request) => this.submit(request, false),
    });
    this.#measuredAt = clock.monotonic();
    metrics.observe(() => this.stats());
  }

  readonly read: Ledger['read'] = async (afterSequence, limit) => {
    const outcome = await readPage(this.#store.view(), afterSequence, limit);
    if (outcome.kind === 'failed' && outcome.cause === 'corrupt') {
      this.#components.problems.add(outcome.message);
    }
    return outcome;
  };

  readonly scan: Ledger['scan'] = (from, to, signal) =>
    scanEvents(() => this.#store.view(), this.#components.pages, from, to, signal);

  readonly batches: Ledger['batches'] = (sequence, signal) =>
    readBatches(() => this.#store.view(), sequence, signal);

  readonly find: Ledger['find'] = async (id) => {
    try {
      return await findEvent(id, this.#store.view());
    } catch (error) {
      throw new LedgerReadError(toLedgerFailure('finding an event', error));
    }
  };

  readonly head = (): number => this.#store.contents().state.segment.lastSequence;

  readonly lowWater = (): number => this.#store.contents().state.lowWater;

  readonly changed: Ledger['changed'] = (afterSequence, signal) =>
    this.#waiters.wait(afterSequence, signal);

  readonly cursors: Ledger['cursors'] = () => [...this.#store.contents().cursors.values()];

  readonly record: Ledger['record'] = (key) => readRecord(this.#store.view(), key);

  readonly records: Ledger['records'] = (prefix) => readRecords(() => this.#store.view(), prefix);

  readonly compareWith: Ledger['compareWith'] = (anchor) => {
    const { ledgerId } = this.#store.contents().state;
    const storage = {
      ledgerId,
      head: this.head(),
      chainAt: (sequence: number) => chainAt(this.#store.view(), sequence),
      skipTo: async (head: number): Promise<WriteOutcome> => {
        const outcome = await this.submit({ kind: 'skip', head }, false);
        return outcome.kind === 'failed' ? outcome : { kind: 'written' };
      },
    };
    return compareWithAnchor(anchor, storage, this.#components.problems);
  };

  readonly retain: Ledger['retain'] = async (now) => {
    const outcome = await this.#retain(now, this.#store.retentionMs);
    this.#components.pages.forgetBefore(this.lowWater() + 1);
    return outcome;
  };

  readonly setRetention: Ledger['setRetention'] = (retentionMs) => {
    this.#store.retentionMs = retentionMs;
  };

  readonly verify: Ledger['verify'] = (signal) =>
    verifyLedger(this.#store.view(), this.#components.problems, signal);

  readonly stats: Ledger['stats'] = () => {
    const { gauge, metrics, problems, clock } = this.#components;
    const { retentionMs } = this.#store;
    const { state, sealed } = this.#store.contents();
    const { bytes, level, usedRatio, roomBytes } = gauge.current();
    const retentionShortened = state.horizon > clock.now() - retentionMs;
    return {
      ledgerId: state.ledgerId,
      sequence: state.segment.lastSequence,
      bytes,
      roomBytes,
      segments: sealed.length + 1,
      chain: state.segment.chain,
      lastWindowEnd: state.lastWindowEnd,
      oldestAt: (sealed[0] ?? state.segment).openedAt,
      retentionMs,
      conflicts: metrics.conflicts(),
      horizon: state.horizon,
      problems: problems.list(),
      disk: { level, usedRatio, retentionShortened },
    };
  };

  protected override async end(): Promise<void> {
    await this.#writer.stop();
    this.#waiters.end(new Error('ledger: closed'));
    this.#components.metrics.close();
    await this.#store.close();
  }

  protected override async submit(
    request: LevelRequest,
    bounded: boolean,
  ): Promise<WriteRequestOutcome> {
    if (request.kind === 'append' && request.events.length > 0) {
      const refused = await this.#refusal(request.windowEnd !== undefined);
      if (refused !== undefined) return refused;
    }
    const outcome = await this.#writer.submit(request, bounded);
    if (outcome.kind === 'failed') {
      if (outcome.cause === 'corrupt') this.#components.problems.add(outcome.message);
      if (outcome.cause === 'full') this.#measuredAt = Number.NEGATIVE_INFINITY;
    }
    this.#waiters.advance(this.head());
    return outcome;
  }

  async #refusal(isWindow: boolean): Promise<LedgerFailure | undefined> {
    const { gauge, clock, directory } = this.#components;
    if (clock.monotonic() - this.#measuredAt >= DISK_INTERVAL_MS) {
      this.#measuredAt = clock.monotonic();
      await gauge.measure().catch(() => undefined);
    }
    const { level, usedRatio } = gauge.current();
    if (!refuses(level, isWindow)) return undefined;
    const used = `${(usedRatio * 100).toFixed(1)} %`;
    const text = `ledger: ${directory}: too little disk space left, in use: "${used}"`;
    return ledgerFailure('full', text);
  }
}

function refuses(level: DiskLevel, isWindow: boolean): boolean {
  return level === 'collector-paused' || (level === 'ingest-refused' && !isWindow);
}
