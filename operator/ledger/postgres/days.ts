import { LOCK_TABLES } from './migrate.ts';
import type { Session } from './session.ts';
import type { Contents } from './state.ts';
import { beginText, commit } from './transaction.ts';

const DAY_MS = 86_400_000;
const LOCK_TIMEOUT_MS = 10_000;

/** The UTC day of a time, `2026-11-21`. */
export function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

/** The end of a day, milliseconds since the epoch. */
export function endOfDay(day: string): number {
  return Date.parse(day) + DAY_MS;
}

/**
 * The day that takes the next events. Never one before a day that has some, so that numbers and days ascend
 * together, and a later one after numbers that were left out, so that no day has a hole.
 */
export function dayOfAppend({ state, segments }: Contents, now: number): string {
  const today = dayOf(now);
  const newest = segments.at(-1);
  if (newest === undefined || newest.day < today) return today;
  return newest.lastSequence === state.head ? newest.day : dayOf(endOfDay(newest.day));
}

/** The partition of a day. */
export function partitionOf(day: string): string {
  return `meterfeed.event_${day.replaceAll('-', '')}`;
}

/** The statements that make a table as a day has it. Numbers ascend, so that pages of their key need no room for later. */
export function dayTable(name: string): string {
  return `create table ${name} (like meterfeed.event including defaults);
    alter table ${name} add primary key (stream, seq) with (fillfactor = 100),
      add unique (stream, id);
    create index on ${name} using brin (window_start)`;
}

/**
 * Makes the partition of a day where there is none. Its keys are its own: a key of the whole table would
 * have to contain the day. Attaching a table locks out neither readers nor writers of the other days.
 */
export async function ensureDay(session: Session, day: string): Promise<void> {
  const name = partitionOf(day);
  const [, found] = await session.run([
    { text: `${beginText(LOCK_TIMEOUT_MS)}; ${LOCK_TABLES}` },
    { text: 'select to_regclass($1) is not null as present', values: [name] },
  ]);
  if (found?.rows[0]?.['present'] !== 't') {
    await session.run([
      {
        text: `${dayTable(name)};
          alter table meterfeed.event attach partition ${name}
            for values from ('${day}') to ('${dayOf(endOfDay(day))}')`,
      },
    ]);
  }
  await commit(session);
}
