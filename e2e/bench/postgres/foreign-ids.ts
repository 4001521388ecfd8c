import { Client } from 'pg';
import type { LedgerDatabase } from '../../../operator/config/settings.ts';
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
const ROUNDS = 20;
const DAY_MS = 86_400_000;
const FIRST_DAY = Date.UTC(2026, 10, 1);
/** A stream beside the measured one, so that the indexes are as deep as those of a large ledger. */
const OTHER_STREAM = 1_000_000;

/** How long it takes to look 1,000 foreign ids up in so many days, and to store them. */
export async function measureForeignIds(
  database: LedgerDatabase,
  days: number,
  rowsPerDay: number,
): Promise<ForeignIdFigures> {
  const clock = createStepClock(FIRST_DAY);
  const ledger = await openStream(database, `days-${days}`, { clock });
  for (let day = 0; day < days; day++) {
    await append(ledger, foreignEvents(day, 1));
    await fillDay(database, new Date(clock.now()).toISOString().slice(0, 10), rowsPerDay);
    clock.pass(DAY_MS);
  }
  clock.pass(-DAY_MS);
  const times: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const events = foreignEvents(days + round, BATCH_EVENTS);
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

async function fillDay(
  { host, port, user, name }: LedgerDatabase,
  day: string,
  rows: number,
): Promise<void> {
  const client = new Client({ host, port, user, database: name });
  await client.connect();
  try {
    await client.query(
      `insert into meterfeed.event (day, stream, seq, window_start, window_end, recorded_at,
          series, crc, id, quantity)
        select $1::date, $2::integer, n, 0, 0, 0, 1, 0, gen_random_uuid(), 1
        from generate_series(1, $3::bigint) n`,
      [day, OTHER_STREAM, rows],
    );
  } finally {
    await client.end();
  }
}
