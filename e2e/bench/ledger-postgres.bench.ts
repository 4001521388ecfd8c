import { startTrio, type Trio } from '../postgres/trio.ts';
import { measurePostgresAppend } from './postgres/append.ts';
import { measureFailover } from './postgres/failover.ts';
import { measureFeederTakeover } from './postgres/feeder-takeover.ts';
import { measureForeignIds } from './postgres/foreign-ids.ts';
import { measureStreams } from './postgres/streams.ts';

/**
 * The ledger in PostgreSQL: a primary with two standbys on this machine, one of which has to have every commit, syncing to
 * the disk; beside COPY of the same rows on the same server, in turns.
 * BENCH_FAILOVERS: how often the primary is killed. BENCH_TAKEOVERS: how often a replica is. BENCH_ROWS_PER_DAY: how large the days are in which ids are looked up.
 */
const BATCHES = 150;
const STREAMS = [1, 4, 16, 64];
const STREAM_SECONDS = 15;
const DAYS = 35;
const ROWS_PER_DAY = Number(process.env['BENCH_ROWS_PER_DAY'] ?? 200_000);
const FAILOVERS = Number(process.env['BENCH_FAILOVERS'] ?? 20);
const TAKEOVERS = Number(process.env['BENCH_TAKEOVERS'] ?? 3);
const SETTINGS = [
  'fsync = on',
  'full_page_writes = on',
  'shared_buffers = 256MB',
  'max_wal_size = 4GB',
];

await withTrio(async (trio) => {
  const database = await trio.primary().createDatabase();
  const figures = await measurePostgresAppend(database, BATCHES);
  report('append_vs_copy', figures.ratio, 'ratio', 'COPY into a table with the same keys');
  report('append_p50', figures.p50, 'ms', 'batch of 1000');
  report('append_p99', figures.p99, 'ms', 'batch of 1000');
  report('copy_p50', figures.copyP50, 'ms', 'batch of 1000');
  report('append_rate', figures.rate, 'events/s', 'encoding included');
  report('delivery_read_vs_copy_out', figures.readRatio, 'ratio', 'COPY of the same rows');
  report('delivery_read_rate', figures.readRate, 'events/s', 'pages of 1000');
  report('bytes_per_event', figures.bytesPerEvent, 'bytes', 'event, indexes included');
  report('clean_stop_seconds', figures.stopSeconds, 's', 'in the midst of a batch');
});
await withTrio(async (trio) => {
  const database = await trio.primary().createDatabase();
  for (const streams of STREAMS) {
    const rate = await measureStreams(database, streams, STREAM_SECONDS);
    report(`streams_${streams}_rate`, rate, 'events/s', `${streams} streams, one process`);
  }
});
await withTrio(async (trio) => {
  for (const days of [1, DAYS]) {
    const database = await trio.primary().createDatabase();
    const { p50, max } = await measureForeignIds(database, days, ROWS_PER_DAY);
    const of = `1000 new ids, days of ${ROWS_PER_DAY} events`;
    report(`foreign_ids_${days}_days_p50`, p50, 'ms', of);
    report(`foreign_ids_${days}_days_max`, max, 'ms', of);
  }
});
await withTrio(async (trio) => {
  const figures = await measureFailover(trio, FAILOVERS);
  report('failover_seconds_p50', figures.p50, 's', `${figures.rounds} rounds`);
  report('failover_seconds_max', figures.max, 's', `${figures.rounds} rounds`);
  report('promotion_seconds_p50', figures.promotionP50, 's', `${figures.rounds} rounds`);
  report('failover_lost', figures.lost, 'events', `${figures.rounds} rounds`);
});
await withTrio(async (trio) => {
  const figures = await measureFeederTakeover(await trio.primary().createDatabase(), TAKEOVERS);
  const of = `longest of ${figures.rounds} rounds`;
  report('feeder_takeover_seconds', figures.killed, 's', `${of}, a replica killed`);
  report('feeder_handover_seconds', figures.stopped, 's', `${of}, a replica stopped`);
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
