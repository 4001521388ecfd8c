import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Registry } from 'prom-client';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { OpenLedgerOutcome } from '../ledger.ts';
import {
  createDiskGauge,
  createReserve,
  type FreeBytes,
  type Reserve,
  systemFreeBytes,
} from './disk-use.ts';
import { type Failpoints, noFailpoints } from './failpoints.ts';
import { Problems } from '../failures.ts';
import { toLedgerFailure } from './failures.ts';
import { openHeadFile } from './head-file.ts';
import { FORMAT, readIdentity, setUpLedger, writeIdentity } from './identity.ts';
import { createLedgerMetrics } from '../ledger-metrics.ts';
import { LevelLedger, type LevelLedgerComponents } from './level-ledger.ts';
import { LevelRollups } from './level-rollups.ts';
import { PageStarts } from './page-starts.ts';
import type { SegmentLimits } from './segment-limits.ts';
import { SegmentPool } from './segment-pool.ts';
import {
  checkAgainstHead,
  clearLeftovers,
  type ActiveSegment,
  openActiveSegment,
} from './start-checks.ts';
import { Store } from './store.ts';

export interface LevelLedgerOptions {
  /** DATA_DIR; created if it does not exist. */
  readonly directory: string;
  /** RETENTION, milliseconds. */
  readonly retentionMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly registry?: Registry;
  /** By default 1,000,000 events or 512 MiB. */
  readonly segmentLimits?: SegmentLimits;
  /** By default 32 MiB. */
  readonly reserveBytes?: number;
  /** Free bytes of the volume; by default from the operating system. */
  readonly freeBytes?: FreeBytes;
  readonly failpoint?: Failpoints;
  /** On by default; off only to measure its cost. */
  readonly deduplicate?: boolean;
}

const SEGMENT_LIMITS: SegmentLimits = { events: 1_000_000, bytes: 512 * 1024 * 1024 };
/** Directory of the sums, beside the segments. */
export const SUMS = 'usage';
const RESERVE_BYTES = 32 * 1024 * 1024;

/**
 * Opens the ledger in a directory, or sets one up, after the checks of
 * docs/reference/ledger-format.md#at-start. `fenced`: another process has it open. `corrupt`: the
 * message names the damaged file.
 */
export async function openLevelLedger(options: LevelLedgerOptions): Promise<OpenLedgerOutcome> {
  try {
    const ledger = new LevelLedger(await openLevelComponents(options));
    return { kind: 'opened', ledger, rollups: new LevelRollups(join(options.directory, SUMS)) };
  } catch (error) {
    return toLedgerFailure(options.directory, error);
  }
}

/**
 * Opens a ledger like {@link openLevelLedger} and returns its components. On a full volume it
 * deletes RESERVE and tries once more. Throws the error of the failed step.
 */
export async function openLevelComponents(
  options: LevelLedgerOptions,
): Promise<LevelLedgerComponents> {
  try {
    return await openComponents(options);
  } catch (error) {
    const { directory, logger } = options;
    const { cause, message } = toLedgerFailure(directory, error);
    if (cause !== 'full') throw error;
    logger.warn('[ledger] the volume is full: RESERVE is deleted to open the ledger', { message });
    await reserveOf(options).release();
    return openComponents(options);
  }
}

function reserveOf({ directory, reserveBytes = RESERVE_BYTES }: LevelLedgerOptions): Reserve {
  return createReserve(directory, reserveBytes);
}

async function openComponents(options: LevelLedgerOptions): Promise<LevelLedgerComponents> {
  const { directory, clock, logger, failpoint = noFailpoints } = options;
  await mkdir(directory, { recursive: true });
  const identity =
    (await readIdentity(directory)) ?? (await setUpLedger(directory, clock.now(), failpoint));
  const head = await openHeadFile(directory, clock, (error) =>
    logger.warn('[ledger] cannot write HEAD', { error: String(error) }),
  );
  let active: ActiveSegment;
  const noted = head.current();
  try {
    active = await openActiveSegment(directory, identity, noted);
  } catch (error) {
    await head.close();
    throw error;
  }
  const metrics = createLedgerMetrics(options.registry);
  const problems = new Problems(logger);
  const reserve = reserveOf(options);
  const gauge = createDiskGauge(directory, reserve, options.freeBytes ?? systemFreeBytes);
  const pages = new PageStarts();
  const store = new Store({
    directory,
    ...active,
    head,
    pages,
    pool: new SegmentPool(directory),
    clock,
    limits: options.segmentLimits ?? SEGMENT_LIMITS,
    retentionMs: options.retentionMs,
    failpoint,
    deduplicate: options.deduplicate ?? true,
    freeSpace: () => reserve.release(),
    onConflict: (event) => {
      metrics.conflict();
      logger.warn('[ledger] an event has the id of a stored one and differs from it', {
        id: event.id,
        quantity: event.quantity,
      });
    },
    onSealed: ({ sequence, chain }) =>
      logger.info(`[ledger] a segment ends at ${sequence}, chain ${chain}`),
    onError: ({ cause, message }) => {
      if (cause === 'corrupt') problems.add(message);
      else logger.error(`[ledger] ${message}`, { cause });
    },
  });
  try {
    // Only while this process has the lock. Releases that do not know the link refuse the ledger
    // from now on.
    if (identity.format !== FORMAT) await writeIdentity(directory, { ...identity, format: FORMAT });
    await head.noteDurably({ ...noted, epoch: noted.epoch + 1 });
    await checkAgainstHead(store, noted, problems, pages);
    await clearLeftovers(directory, store.contents(), problems);
    await gauge.measure();
  } catch (error) {
    metrics.close();
    await store.close();
    throw error;
  }
  return { ...options, failpoint, store, pages, gauge, problems, metrics };
}
