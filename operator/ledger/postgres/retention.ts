import type { Logger } from '../../telemetry/logger.ts';
import { consumedUpTo } from '../consumed-up-to.ts';
import { dayOf, endOfDay, ensureDay, partitionOf } from './days.ts';
import { sqlState, toLedgerFailure } from './failures.ts';
import { LOCK_TABLES } from './migrate.ts';
import type { Session } from './session.ts';
import { cursorOf } from './state.ts';
import type { Store } from './store.ts';
import { beginText, commit, rollback } from './transaction.ts';

export interface RetentionOptions {
  readonly store: Store;
  readonly logger: Logger;
}

/** Times in milliseconds; `now` since the epoch. */
export type Retain = (now: number, retentionMs: number) => Promise<void>;

/** Dropping a table waits for its readers, and whoever comes after waits behind it: so it is given up soon, and tried again later. */
const LOCK_TIMEOUT_MS = 200;
const LOCK_NOT_AVAILABLE = '55P03';
const DAY_MS = 86_400_000;

/**
 * Drops the oldest days that every cursor of every stream in them has passed and that are older than each
 * stream's RETENTION (docs/ledger-format.md#postgresql), and makes the partitions of today and tomorrow.
 * Failures are logged and the next run tries again.
 */
export function createRetention({ store, logger }: RetentionOptions): Retain {
  let running: Promise<void> | undefined;

  const run = async (now: number, retentionMs: number): Promise<void> => {
    await store.between(async (session) => {
      const { stream } = store.contents().state;
      await session.run([
        {
          text: 'update meterfeed.stream set retention_ms = $2 where stream = $1 and retention_ms <> $2',
          values: [stream, retentionMs],
        },
      ]);
      for (const day of [dayOf(now), dayOf(now + DAY_MS)]) await ensureDay(session, day);
    });
    for (;;) {
      const oldest = store.contents().segments[0];
      if (oldest === undefined) return;
      const dropped = await store.between((session) => dropDay(session, oldest.day, now));
      if (!dropped) return;
      store.view().series.clear();
      logger.info(`[ledger] deleted events ${oldest.firstSequence} to ${oldest.lastSequence}`);
    }
  };

  return (now, retentionMs) => {
    running ??= run(now, retentionMs)
      .catch((error: unknown) => {
        if (sqlState(error) === LOCK_NOT_AVAILABLE) return;
        logger.error(`[ledger] ${toLedgerFailure('deleting old days', error).message}`);
      })
      .finally(() => {
        running = undefined;
      });
    return running;
  };
}

/** Drops a day with its marks in one transaction, unless some stream still needs it. */
async function dropDay(session: Session, day: string, now: number): Promise<boolean> {
  const [, streams, cursors] = await session.run([
    { text: `${beginText(LOCK_TIMEOUT_MS)}; ${LOCK_TABLES}` },
    {
      text: `select s.stream, s.retention_ms, g.last_seq, g.max_end
        from meterfeed.segment g join meterfeed.stream s on s.stream = g.stream
        where g.day = $1 order by s.stream for update of s`,
      values: [day],
    },
    {
      text: `select stream, destination, seq, window_end, retired_at from meterfeed.cursor
        where stream in (select stream from meterfeed.segment where day = $1)`,
      values: [day],
    },
  ]);
  const free = streams?.rows.every((row) => {
    const retentionMs = Number(row['retention_ms']);
    const own = (cursors?.rows ?? [])
      .filter(({ stream }) => stream === row['stream'])
      .map(cursorOf);
    const newest = Math.max(endOfDay(day), Number(row['max_end']));
    return (
      Number(row['last_seq']) <= consumedUpTo(own, now, retentionMs) && newest < now - retentionMs
    );
  });
  if (free !== true) {
    await rollback(session);
    return false;
  }
  await session.run([
    { text: `drop table if exists ${partitionOf(day)}` },
    {
      text: `update meterfeed.stream s set low_water = greatest(s.low_water, g.last_seq),
          horizon = greatest(s.horizon, g.max_end)
        from meterfeed.segment g where g.day = $1 and g.stream = s.stream`,
      values: [day],
    },
    { text: 'delete from meterfeed.batch where day = $1', values: [day] },
    { text: 'delete from meterfeed.segment where day = $1', values: [day] },
    {
      text: `delete from meterfeed.series s where s.last_day <= $1 and not exists
        (select from meterfeed.segment g where g.stream = s.stream and g.day <= s.last_day)`,
      values: [day],
    },
  ]);
  await commit(session);
  return true;
}
