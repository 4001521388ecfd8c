import { startTrio, type Trio } from '../postgres/trio.ts';
import { measurePostgresAppend } from './postgres/append.ts';
import { measureFailover } from './postgres/failover.ts';
import { measureForeignIds } from './postgres/foreign-ids.ts';
import { measureStreams } from './postgres/streams.ts';

/**
 * The ledger in PostgreSQL: a primary with two standbys on this machine, one of which must have every commit, syncing to
 * the disk. BENCH_FAILOVERS: how often the primary is killed. BENCH_ROWS_PER_WEEK: how large the weeks are in which ids are
 * looked up.
 */
const BATCHES = 150;
const STREAMS = 16;
const STREAM_SECONDS = 15;
const WEEKS = 5;
const ROWS_PER_WEEK = Number(process.env['BENCH_ROWS_PER_WEEK'] ?? 1_000_000);
const FAILOVERS = Number(process.env['BENCH_FAILOVERS'] ?? 20);
const SETTINGS = [
  'fsync = on',
  'full_page_writes = on',
  'shared_buffers = 256MB',
  'max_wal_size = 4GB',
];

await withTrio(async (trio) => {
  const database = await trio.primary().createDatabase();
  const figures = await measurePostgresAppend(database, BATCHES);
  report('events_per_second', figures.rate, 'events/s', 'one stream, batches of 1000');
  report('append_p50', figures.p50, 'ms', 'batch of 1000');
  report('append_p99', figures.p99, 'ms', 'batch of 1000');
  report('read_rate', figures.readRate, 'events/s', 'pages of 1000');
  report('bytes_per_event', figures.bytesPerEvent, 'bytes', 'event, indexes included');
  report('clean_stop_seconds', figures.stopSeconds, 's', 'in the midst of a batch');
});
await withTrio(async (trio) => {
  const database = await trio.primary().createDatabase();
  const rate = await measureStreams(database, STREAMS, STREAM_SECONDS);
  report('events_per_second', rate, 'events/s', `${STREAMS} streams in sum, batches of 1000`);
});
await withTrio(async (trio) => {
  for (const weeks of [1, WEEKS]) {
    const database = await trio.primary().createDatabase();
    const { p50, max } = await measureForeignIds(database, weeks, ROWS_PER_WEEK);
    const of = `1000 new ids, weeks of ${ROWS_PER_WEEK} events`;
    report(`foreign_ids_${weeks}_weeks_p50`, p50, 'ms', of);
    report(`foreign_ids_${weeks}_weeks_max`, max, 'ms', of);
  }
});
await withTrio(async (trio) => {
  const figures = await measureFailover(trio, FAILOVERS);
  report('failover_seconds_p50', figures.p50, 's', `${figures.rounds} rounds`);
  report('failover_seconds_max', figures.max, 's', `${figures.rounds} rounds`);
  report('promotion_seconds_p50', figures.promotionP50, 's', `${figures.rounds} rounds`);
  report('failover_lost', figures.lost, 'events', `${figures.rounds} rounds`);
});
async function withTrio(work: (trio: Trio) => Promise<void>): Promise<void> {
  const trio = await startTrio({ settings: SETTINGS });
  try {
    await work(trio);
  } finally {
    await trio.close();
  }
}

function report(figure: string, value: number, unit: string, of: string): void {
  const rounded = Number(value.toPrecision(4));
  console.log(JSON.stringify({ bench: 'ledger-postgres', figure, value: rounded, unit, of }));
}
