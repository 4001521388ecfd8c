import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { planCommit, planMove, planRetire } from '../cursor-moves.ts';
import { createHeadWaiters } from '../head-waiters.ts';
import {
  type AppendBatch,
  type AppendOutcome,
  type DiskLevel,
  type Ledger,
  type LedgerFailure,
  LedgerReadError,
  type RecordChange,
  type WriteOutcome,
} from '../ledger.ts';
import type { DiskGauge } from './disk-gauge.ts';
import type { Failpoints } from './failpoints.ts';
import { ledgerFailure, toLedgerFailure } from './failures.ts';
import { findEvent } from './find-event.ts';
import { KEY_SPACE, textKey } from './keys.ts';
import type { LedgerMetrics } from './ledger-metrics.ts';
import type { Problems } from './problems.ts';
import { readPage, scanEvents } from './read-events.ts';
import { encodeEvents, type EntryChange, type Request, type RequestOutcome } from './requests.ts';
import { readRecord, readRecords } from './read-records.ts';
import { createRetention } from './retention.ts';
import type { Store } from './store.ts';
import { verifyLedger } from './verify-ledger.ts';
import { createWriter } from './writer.ts';

export interface LevelLedgerParts {
  readonly directory: string;
  readonly retentionMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly store: Store;
  readonly gauge: DiskGauge;
  readonly problems: Problems;
  readonly metrics: LedgerMetrics;
  readonly failpoint: Failpoints;
}

const DISK_INTERVAL_MS = 10_000;

/** The ledger over a store whose checks have passed. */
export function createLevelLedger(parts: LevelLedgerParts): Ledger {
  const { store, gauge, problems, metrics, clock } = parts;
  const writer = createWriter((requests) => store.write(requests));
  const waiters = createHeadWaiters(store.contents().state.segment.lastSequence);
  let { retentionMs } = parts;
  let measuredAt = clock.monotonic();
  let closing: Promise<void> | undefined;

  const head = (): number => store.contents().state.segment.lastSequence;
  const submit = async (request: Request, bounded: boolean): Promise<RequestOutcome> => {
    const outcome = await writer.submit(request, bounded);
    if (outcome.kind === 'failed') {
      if (outcome.cause === 'corrupt') problems.add(outcome.message);
      if (outcome.cause === 'full') measuredAt = Number.NEGATIVE_INFINITY;
    }
    waiters.advance(head());
    return outcome;
  };
  const write = async (request: Request): Promise<WriteOutcome> => {
    const outcome = await submit(request, false);
    return outcome.kind === 'failed' ? outcome : { kind: 'written' };
  };
  const refusal = async (batch: AppendBatch): Promise<LedgerFailure | undefined> => {
    if (clock.monotonic() - measuredAt >= DISK_INTERVAL_MS) {
      measuredAt = clock.monotonic();
      await gauge.measure().catch(() => undefined);
    }
    const { level, usedRatio } = gauge.current();
    if (!refuses(level, batch.windowEnd !== undefined)) return undefined;
    const used = `${(usedRatio * 100).toFixed(1)} %`;
    return ledgerFailure(
      'full',
      `ledger: ${parts.directory}: too little room left, in use: "${used}"`,
    );
  };

  const retain = createRetention({
    ...parts,
    submit: (request) => submit(request, false),
  });

  const close = async (): Promise<void> => {
    await writer.stop();
    waiters.end(new Error('ledger: closed'));
    metrics.close();
    await store.close();
  };

  const ledger: Ledger = {
    async append(batch): Promise<AppendOutcome> {
      const startedAt = clock.monotonic();
      const refused = batch.events.length > 0 ? await refusal(batch) : undefined;
      if (refused !== undefined) return refused;
      const outcome = await submit(
        {
          kind: 'append',
          events: encodeEvents(batch.events),
          changes: (batch.records ?? []).map(recordChange),
          ...(batch.windowEnd !== undefined && { windowEnd: batch.windowEnd }),
        },
        batch.windowEnd === undefined,
      );
      if (outcome.kind === 'appended') {
        const accepted = outcome.outcomes.filter((word) => word === 'accepted').length;
        const duplicates = outcome.outcomes.filter((word) => word === 'duplicate').length;
        metrics.appended(accepted, duplicates, (clock.monotonic() - startedAt) / 1_000);
      }
      return outcome;
    },
    async read(afterSequence, limit) {
      const outcome = await readPage(store.places(), afterSequence, limit);
      if (outcome.kind === 'failed' && outcome.cause === 'corrupt') problems.add(outcome.message);
      return outcome;
    },
    scan: (from, to, signal) => scanEvents(() => store.places(), from, to, signal),
    async find(id) {
      try {
        return await findEvent(id, store.places());
      } catch (error) {
        throw new LedgerReadError(toLedgerFailure(`finding an event`, error));
      }
    },
    head,
    lowWater: () => store.contents().state.lowWater,
    changed: (afterSequence, signal) => waiters.wait(afterSequence, signal),

    cursors: () => [...store.contents().cursors.values()],
    commitCursor: (destination, sequence, { from, records = [] } = {}) =>
      write({
        kind: 'cursor',
        destination,
        changes: records.map(recordChange),
        plan: (current, newest) => planCommit(current, destination, sequence, newest, from),
      }),
    moveCursor: (destination, sequence) =>
      write({
        kind: 'cursor',
        destination,
        plan: (_, newest) => planMove(destination, sequence, newest),
      }),
    retireCursor: (destination, at) =>
      write({
        kind: 'cursor',
        destination,
        plan: (current) => ({ kind: 'move', cursor: planRetire(current, at) }),
      }),
    dropCursor: (destination) => write({ kind: 'cursor', destination, plan: () => 'drop' }),

    record: (key) => readRecord(store.places(), key),
    records: (prefix) => readRecords(() => store.places(), prefix),
    writeRecords: (changes) =>
      write({ kind: 'append', events: [], changes: changes.map(recordChange) }),

    retain: (now) => retain(now, retentionMs),
    setRetention(milliseconds) {
      retentionMs = milliseconds;
    },
    verify: (signal) => verifyLedger(store.places(), problems, signal),
    stats() {
      const { state, sealed } = store.contents();
      const { bytes, level, usedRatio, roomBytes } = gauge.current();
      return {
        ledgerId: state.ledgerId,
        sequence: state.segment.lastSequence,
        bytes,
        roomBytes,
        segments: sealed.length + 1,
        chain: state.segment.chain,
        ...(state.lastWindowEnd !== undefined && { lastWindowEnd: state.lastWindowEnd }),
        oldestAt: (sealed[0] ?? state.segment).openedAt,
        conflicts: metrics.conflicts(),
        horizon: state.horizon,
        problems: problems.list(),
        disk: {
          level,
          usedRatio,
          retentionShortened: state.horizon > clock.now() - retentionMs,
        },
      };
    },
    close() {
      closing ??= close();
      return closing;
    },
  };
  metrics.observe(() => ledger.stats());
  return ledger;
}

function refuses(level: DiskLevel, isWindow: boolean): boolean {
  return level === 'collector-paused' || (level === 'ingest-refused' && !isWindow);
}

function recordChange({ key, value }: RecordChange): EntryChange {
  return { key: textKey(KEY_SPACE.record, key), body: value };
}
