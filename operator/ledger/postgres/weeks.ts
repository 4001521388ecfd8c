const DAY_MS = 86_400_000;
const WEEK_DAYS = 7;
const THURSDAY_TO_MONDAY = 3;

/** The UTC day of a time, such as `2026-11-28`. */
export function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

/** The Monday of the week of a time, UTC, such as `2026-11-23`. */
export function weekOf(ms: number): string {
  // The epoch was a Thursday.
  const days = Math.floor(ms / DAY_MS) + THURSDAY_TO_MONDAY;
  return dayOf((days - (days % WEEK_DAYS) - THURSDAY_TO_MONDAY) * DAY_MS);
}

/** The end of a week, milliseconds since the epoch. */
export function endOfWeek(week: string): number {
  return Date.parse(week) + WEEK_DAYS * DAY_MS;
}

/** The table name of a week's partition. */
export function partitionOf(schema: string, week: string): string {
  return `${schema}.event_${week.replaceAll('-', '')}`;
}

/** Creates a week's partition. Attaching it blocks neither readers nor writers of the others. */
export function createPartition(schema: string, week: string): string {
  const name = partitionOf(schema, week);
  return `create table ${name} (like ${schema}.event including defaults, primary key (seq), unique (id));
    create index on ${name} using brin (window_start);
    alter table ${schema}.event attach partition ${name}
      for values from ('${week}') to ('${dayOf(endOfWeek(week))}')`;
}
