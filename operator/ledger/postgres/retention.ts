import type { Logger } from '../../telemetry/logger.ts';
import { formatInstant } from '../../model/window.ts';
import { consumedUpTo, type Retain } from '../consumed-up-to.ts';
import { EVIDENCE_MS, EVIDENCE_PREFIX } from '../evidence-keys.ts';
import type { Cursor } from '../ledger.ts';
import { grantToHub } from './migrate.ts';
import type { RunQuery } from './readers.ts';
import { HUB_SCHEMA } from './schema-name.ts';
import type { Session, Statement } from './session.ts';
import { type StreamContents, cursorOf } from './state.ts';
import type { StreamStore } from './stream-store.ts';
import { endOfWeek, partitionOf } from './weeks.ts';

/** Dropping a table waits for its readers and blocks later ones: it gives up early and retries. */
const LOCK_TIMEOUT_MS = 200;

/** The view that shows a stream's role the hub's cursors of its stream. */
export const HUB_CURSORS = `${HUB_SCHEMA}.cursor_of_stream`;

/**
 * Grants the hub's role read access, and drops the oldest weeks. A week is dropped when every
 * cursor has passed it, those of a hub included, and it is older than RETENTION
 * (docs/reference/ledger-format.md#postgresql). The caller's next run retries a failed step.
 */
export function createRetention(
  schema: string,
  store: StreamStore,
  query: RunQuery,
  logger: Logger,
): Retain {
  let running: Promise<void> | undefined;

  const run = async (now: number, retentionMs: number): Promise<void> => {
    // A hub may be added at any time; the next run retries a failure.
    await grantToHub(query, schema).catch(() => undefined);
    for (;;) {
      const before = store.contents();
      const week = before.segments[0]?.week;
      if (week === undefined || endOfWeek(week) >= now - retentionMs) return;
      const dropped = await store.change((session) =>
        dropWeek(session, { schema, before: store.contents(), week, now, retentionMs }),
      );
      if (dropped.kind === 'failed' || !dropped.result) return;
      const { lowWater } = store.contents().state;
      logger.info(`[ledger] deleted events ${before.state.lowWater + 1} to ${lowWater}`);
    }
  };

  return (now, retentionMs) => {
    running ??= run(now, retentionMs).finally(() => {
      running = undefined;
    });
    return running;
  };
}

/** Drops a week and updates the stream in one transaction. Undefined if it is still needed. */
async function dropWeek(
  session: Session,
  {
    schema,
    before,
    week,
    now,
    retentionMs,
  }: {
    readonly schema: string;
    readonly before: StreamContents;
    readonly week: string;
    readonly now: number;
    readonly retentionMs: number;
  },
): Promise<StreamContents | undefined> {
  const { state, cursors } = before;
  const old = before.segments.filter((segment) => segment.week === week);
  const lowWater = old.at(-1)?.lastSequence ?? 0;
  const newest = Math.max(...old.map(({ ends }) => ends.to));
  const all = [...cursors.values(), ...(await cursorsOfHub(session, schema))];
  const isFree =
    lowWater <= consumedUpTo(all, now, retentionMs) &&
    Math.max(newest, endOfWeek(week)) < now - retentionMs;
  if (!isFree) return undefined;
  const horizon = Math.max(state.horizon, newest);
  await session.run([
    { text: `set local lock_timeout = ${LOCK_TIMEOUT_MS}` },
    { text: `drop table ${partitionOf(schema, week)}` },
    { text: `delete from ${schema}.segment where week = $1::date`, values: [week] },
    // The last batch stays: the chain of the oldest event starts from it.
    { text: `delete from ${schema}.batch where last_seq < $1`, values: [lowWater] },
    evidenceBefore(schema, before, week),
    {
      text: `update ${schema}.stream set low_water = $1, horizon = $2`,
      values: [lowWater, horizon],
    },
  ]);
  return {
    cursors,
    segments: before.segments.filter((segment) => segment.week !== week),
    state: { ...state, lowWater, horizon },
  };
}

/** Deletes the evidence of the events of a dropped week. */
function evidenceBefore(schema: string, { segments }: StreamContents, week: string): Statement {
  const remaining = segments.filter((segment) => segment.week !== week);
  const newest = Math.max(...segments.map(({ starts }) => starts.to));
  const oldest = Math.min(newest + EVIDENCE_MS, ...remaining.map(({ starts }) => starts.from));
  const hour = formatInstant(oldest - (oldest % EVIDENCE_MS));
  return {
    text: `delete from ${schema}.evidence where key < $1`,
    values: [EVIDENCE_PREFIX + hour],
  };
}

/** The hub's cursors of this stream; none if the database has no hub. */
async function cursorsOfHub(session: Session, schema: string): Promise<readonly Cursor[]> {
  const [found] = await session.run([
    { text: 'select to_regclass($1) is not null as present', values: [HUB_CURSORS] },
  ]);
  if (found?.rows[0]?.['present'] !== 't') return [];
  const text = `select destination, seq, window_end, retired_at from ${HUB_CURSORS} where stream = $1`;
  const [cursors] = await session.run([{ text, values: [schema] }]);
  return cursors?.rows.map(cursorOf) ?? [];
}
