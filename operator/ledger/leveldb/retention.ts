import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from '../../telemetry/logger.ts';
import { consumedUpTo, type Retain } from '../consumed-up-to.ts';
import { LedgerReadError } from '../ledger.ts';
import type { DiskGauge } from './disk-use.ts';
import type { Failpoints } from './failpoints.ts';
import { toLedgerFailure } from './failures.ts';
import { isMissing, renameDurably } from './files.ts';
import { segmentName, trashName } from './segment-names.ts';
import type { SealedSegment } from './state.ts';
import type { Store } from './store.ts';
import type { LevelRequest } from './plan-batch.ts';
import type { WriteRequestOutcome } from '../writer.ts';

/**
 * Deletes sealed segments that every cursor has passed, oldest first:
 * - those older than RETENTION (docs/reference/ledger-format.md#deletion);
 * - younger ones if disk space is short (docs/reference/ledger-format.md#disk-use).
 *
 * Runs one at a time. Failures are logged and the next run retries.
 */
export function createRetention(options: {
  readonly directory: string;
  readonly store: Store;
  readonly submit: (request: LevelRequest) => Promise<WriteRequestOutcome>;
  readonly gauge: DiskGauge;
  readonly failpoint: Failpoints;
  readonly logger: Logger;
}): Retain {
  const { store, gauge, logger } = options;
  let running: Promise<void> | undefined;

  const run = async (now: number, retentionMs: number): Promise<void> => {
    await gauge.measure();
    for (const segment of store.contents().sealed) {
      const { cursors } = store.contents();
      if (segment.lastSequence > consumedUpTo(cursors.values(), now, retentionMs)) return;
      const expired = isExpired(segment, now, retentionMs);
      if (!expired && gauge.current().level === 'normal') return;
      await drop(segment);
      await gauge.measure();
    }
  };
  const drop = async (segment: SealedSegment): Promise<void> => {
    const { firstSequence, lastSequence } = segment;
    await options.failpoint('retain:before-forget');
    const outcome = await options.submit({ kind: 'forget', segment });
    if (outcome.kind === 'failed') throw new LedgerReadError(outcome);
    await options.failpoint('retain:after-forget');
    await store.view().pool.evict(firstSequence);
    await discardSegment(options.directory, firstSequence, () =>
      options.failpoint('retain:after-rename'),
    );
    logger.info(`[ledger] deleted events ${firstSequence} to ${lastSequence}`);
  };

  return (now, retentionMs) => {
    running ??= run(now, retentionMs)
      .catch((error: unknown) => {
        logger.error(`[ledger] ${toLedgerFailure('deleting old segments', error).message}`);
      })
      .finally(() => {
        running = undefined;
      });
    return running;
  };
}

/** Whether a segment is older than RETENTION, from its sealing or its newest window's end. */
export function isExpired(segment: SealedSegment, now: number, retentionMs: number): boolean {
  return Math.max(segment.sealedAt, segment.ends?.to ?? 0) < now - retentionMs;
}

/**
 * Deletes the directory of a segment that is not in the list. The rename comes first, so that an
 * interrupted deletion is completed at the next start.
 */
export async function discardSegment(
  directory: string,
  firstSequence: number,
  afterRename: () => Promise<void> = async () => undefined,
): Promise<void> {
  const trash = join(directory, trashName(firstSequence));
  await renameDurably(join(directory, segmentName(firstSequence)), trash).catch(
    (error: unknown) => {
      // The directory of a given-up segment may be missing.
      if (!isMissing(error)) throw error;
    },
  );
  await afterRename();
  await rm(trash, { recursive: true, force: true });
}
