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
import { LevelLedger, type LevelLedgerParts } from './level-ledger.ts';
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
  /** DATA_DIR; created when it does not exist. */
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
  /** By default the system's word. */
  readonly freeBytes?: FreeBytes;
  readonly failpoint?: Failpoints;
  /** On by default; off only for measuring what it costs. */
  readonly deduplicate?: boolean;
}

const SEGMENT_LIMITS: SegmentLimits = { events: 1_000_000, bytes: 512 * 1024 * 1024 };
/** The directory of sums, beside the segments. */
export const SUMS = 'usage';
const RESERVE_BYTES = 32 * 1024 * 1024;

/**
 * Opens the ledger in a directory, or sets one up where there is none, after the checks of
 * docs/reference/ledger-format.md#at-start. `fenced`: another process has it open. `corrupt`: the message
 * names the file that is damaged.
 */
export async function openLevelLedger(options: LevelLedgerOptions): Promise<OpenLedgerOutcome> {
  try {
    const ledger = new LevelLedger(await openLevelParts(options));
    return { kind: 'opened', ledger, rollups: new LevelRollups(join(options.directory, SUMS)) };
  } catch (error) {
    return toLedgerFailure(options.directory, error);
  }
}

/**
 * Opens a ledger as {@link openLevelLedger} does, and gives what it is made of. On a full volume it deletes
 * RESERVE and tries once more. Throws at what fails.
 */
export async function openLevelParts(options: LevelLedgerOptions): Promise<LevelLedgerParts> {
  try {
    return await openParts(options);
  } catch (error) {
    const { directory, logger } = options;
    const { cause, message } = toLedgerFailure(directory, error);
    if (cause !== 'full') throw error;
    logger.warn('[ledger] the volume is full: RESERVE is deleted to open the ledger', { message });
    await reserveOf(options).release();
    return openParts(options);
  }
}

function reserveOf({ directory, reserveBytes = RESERVE_BYTES }: LevelLedgerOptions): Reserve {
  return createReserve(directory, reserveBytes);
}

async function openParts(options: LevelLedgerOptions): Promise<LevelLedgerParts> {
  const { directory, clock, logger, failpoint = noFailpoints } = options;
  await mkdir(directory, { recursive: true });
  const identity =
    (await readIdentity(directory)) ?? (await setUpLedger(directory, clock.now(), failpoint));
  const head = await openHeadFile(directory, clock, (error) =>
    logger.warn('[ledger] cannot note how far the ledger is', { error: String(error) }),
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
    giveRoom: () => reserve.release(),
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
    // Only now that the lock is held; a release that knows no link refuses the ledger from here on.
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
