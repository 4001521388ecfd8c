import type { LedgerDatabase } from '../../../operator/settings/settings.ts';
import type { Ledger } from '../../../operator/ledger/ledger.ts';
import { append } from '../ledger-append.ts';
import { benchWindow } from '../ledger-events.ts';
import { quantile } from '../quantile.ts';
import { openStream } from './open-stream.ts';

export interface PostgresAppendFigures {
  /** Milliseconds for a batch. */
  readonly p50: number;
  readonly p99: number;
  /** Events a second through one stream. */
  readonly rate: number;
  /** Events a second that one reader gets, half of the passes. */
  readonly readRate: number;
  /** Tables and indexes. */
  readonly bytesPerEvent: number;
  /** Seconds from being told to stop, in the midst of writing, to the end. */
  readonly stopSeconds: number;
}

const BATCH_EVENTS = 1_000;
const WARM_UP = 20;
const READ_EVENTS = 1_000;
const READ_PASSES = 5;

/** Appends batches of 1,000 to a stream, then reads all of them. */
export async function measurePostgresAppend(
  database: LedgerDatabase,
  batches: number,
): Promise<PostgresAppendFigures> {
  const ledger = await openStream(database, 'bench');
  const times: number[] = [];
  for (let batch = 0; batch < batches + WARM_UP; batch++) {
    const events = benchWindow(batch, BATCH_EVENTS);
    const time = await timeOf(() => append(ledger, events));
    if (batch >= WARM_UP) times.push(time);
  }
  const stored = ledger.head();
  const reads: number[] = [];
  for (let pass = 0; pass < READ_PASSES; pass++) reads.push(await timeOf(() => readAll(ledger)));
  await ledger.retain(Date.now());
  const { bytes } = ledger.stats();
  const writing = append(ledger, benchWindow(batches + WARM_UP, BATCH_EVENTS));
  const stopMs = await timeOf(() => ledger.close());
  await writing;
  return {
    p50: quantile(times, 0.5),
    p99: quantile(times, 0.99),
    rate: (times.length * BATCH_EVENTS * 1_000) / times.reduce((a, b) => a + b, 0),
    readRate: (stored * 1_000) / quantile(reads, 0.5),
    bytesPerEvent: bytes / stored,
    stopSeconds: stopMs / 1_000,
  };
}

/** As a feed does that is behind. */
async function readAll(ledger: Ledger): Promise<void> {
  for (let after = 0; after < ledger.head(); ) {
    const page = await ledger.read(after, READ_EVENTS);
    if (page.kind === 'failed') throw new Error(page.message);
    after = page.lastSequence;
  }
}

async function timeOf(work: () => Promise<unknown>): Promise<number> {
  const from = performance.now();
  await work();
  return performance.now() - from;
}
