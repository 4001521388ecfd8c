import { Client } from 'pg';
import type { LedgerDatabase } from '../../../operator/settings/settings.ts';
import { schemaOf } from '../../../operator/ledger/postgres/schema-name.ts';
import { createStepClock } from '../../../operator/ledger/testing/step-clock.ts';
import { append } from '../ledger-append.ts';
import { benchWindow } from '../ledger-events.ts';
import { quantile } from '../quantile.ts';
import { openStream } from './open-stream.ts';

export interface ForeignIdFigures {
  /** Milliseconds for 1,000 events with ids of their own that are new, half of the time and the worst. */
  readonly p50: number;
  readonly max: number;
}

const BATCH_EVENTS = 1_000;
const PASSES = 20;
const WEEK_MS = 7 * 86_400_000;
const FIRST_WEEK = Date.UTC(2026, 10, 2);
/** Beside the events of the stream, so that the indexes are as deep as those of a large one. */
const FIRST_FILLER = 1_000_000_000;

/** How long it takes to look 1,000 foreign ids up in so many weeks, and to store them. */
export async function measureForeignIds(
  database: LedgerDatabase,
  weeks: number,
  rowsPerWeek: number,
): Promise<ForeignIdFigures> {
  const clock = createStepClock(FIRST_WEEK);
  const source = `weeks-${weeks}`;
  const ledger = await openStream(database, source, { clock });
  for (let week = 0; week < weeks; week++) {
    await append(ledger, foreignEvents(week, 1));
    const monday = new Date(clock.now()).toISOString().slice(0, 10);
    await fillWeek(database, schemaOf(source), monday, rowsPerWeek);
    clock.pass(WEEK_MS);
  }
  clock.pass(-WEEK_MS);
  const times: number[] = [];
  for (let round = 0; round < PASSES; round++) {
    const events = foreignEvents(weeks + round, BATCH_EVENTS);
    const from = performance.now();
    await append(ledger, events);
    times.push(performance.now() - from);
  }
  await ledger.close();
  return { p50: quantile(times, 0.5), max: quantile(times, 1) };
}

function foreignEvents(window: number, count: number) {
  return benchWindow(window, count).map((event, index) => ({
    ...event,
    id: `their-${window}-${index}`,
  }));
}

async function fillWeek(
  { host, port, user, name }: LedgerDatabase,
  schema: string,
  week: string,
  rows: number,
): Promise<void> {
  const client = new Client({ host, port, user, database: name });
  await client.connect();
  try {
    await client.query(
      `insert into ${schema}.event (stored_on, crc, seq, window_start, window_end, recorded_at, quantity, id,
          tenant, metric, unit)
        select $1::date, 0, n, $1::date, $1::date, $1::date, 1, 'filler-' || gen_random_uuid(), 't', 'm', 'u'
        from generate_series($2::bigint, $2::bigint + $3::bigint) n`,
      [week, FIRST_FILLER, rows],
    );
  } finally {
    await client.end();
  }
}
