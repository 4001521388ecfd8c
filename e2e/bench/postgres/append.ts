import type { LedgerDatabase } from '../../../operator/config/settings.ts';
import { encodeStoredEvents } from '../../../operator/ledger/event-chain.ts';
import type { Ledger } from '../../../operator/ledger/ledger.ts';
import { dayTable } from '../../../operator/ledger/postgres/days.ts';
import { splitEvent, textColumns } from '../../../operator/ledger/postgres/event-rows.ts';
import { type EncodedEvent, encodeEvents } from '../../../operator/ledger/writer.ts';
import { append } from '../ledger-append.ts';
import { benchWindow } from '../ledger-events.ts';
import { quantile } from '../quantile.ts';
import { type Copying, openCopying } from './copy.ts';
import { openStream } from './open-stream.ts';

export interface PostgresAppendFigures {
  /** Time of COPY ÷ time of the ledger without encoding, each that of the fastest quarter; 1 is as fast. */
  readonly ratio: number;
  /** Milliseconds for a batch, encoding included. */
  readonly p50: number;
  readonly p99: number;
  readonly copyP50: number;
  /** Events a second, encoding included. */
  readonly rate: number;
  /** Time of COPY … TO ÷ time of reading everything page by page, each that of the fastest quarter. */
  readonly readRatio: number;
  /** Events a second, half of the passes. */
  readonly readRate: number;
  /** Tables and indexes. */
  readonly bytesPerEvent: number;
  /** Seconds from being told to stop, in the midst of writing, to the end. */
  readonly stopSeconds: number;
}

const BATCH_EVENTS = 1_000;
const WARM_UP = 20;
const READ_EVENTS = 1_000;
const READ_PASSES = 30;
const READ_WARM_UP = 2;
const UNDISTURBED = 0.25;
const DAY = '2026-11-01';

/**
 * Appends batches of 1,000 to a stream and, in turns, copies the same rows into a table with the same keys; then reads all of
 * them and, in turns, copies them out.
 */
export async function measurePostgresAppend(
  database: LedgerDatabase,
  batches: number,
): Promise<PostgresAppendFigures> {
  const ledger = await openStream(database, 'bench');
  const copying = await openCopying(database);
  await createBareTable(copying);
  const ours: number[] = [];
  const copies: number[] = [];
  const encodings: number[] = [];
  for (let batch = 0; batch < batches + WARM_UP; batch++) {
    const events = benchWindow(batch, BATCH_EVENTS);
    const encoded = encodeEvents(events);
    const rows = copyText(encoded, batch * BATCH_EVENTS);
    const encoding = await timeOf(async () =>
      encodeStoredEvents(
        1,
        encodeEvents(events).map(({ text }) => text),
      ),
    );
    const copy = () => timeOf(() => copying.into('bench.event', rows));
    // Whoever goes first finds colder caches, so they take turns.
    const copyFirst = batch % 2 === 0 ? await copy() : undefined;
    const ourTime = await timeOf(() => append(ledger, events));
    const copyTime = copyFirst ?? (await copy());
    if (batch < WARM_UP) continue;
    ours.push(ourTime);
    copies.push(copyTime);
    encodings.push(encoding);
  }
  const stored = ledger.head();
  const reads: number[] = [];
  const copiesOut: number[] = [];
  for (let pass = 0; pass < READ_PASSES + READ_WARM_UP; pass++) {
    const readTime = await timeOf(() => readAll(ledger));
    const outTime = await timeOf(() => copying.outOf('select * from meterfeed.event order by seq'));
    if (pass < READ_WARM_UP) continue;
    reads.push(readTime);
    copiesOut.push(outTime);
  }
  await ledger.retain(Date.now());
  const { bytes } = ledger.stats();
  const writing = append(ledger, benchWindow(batches + WARM_UP, BATCH_EVENTS));
  const stopMs = await timeOf(() => ledger.close());
  await writing;
  await copying.end();
  const undisturbed = quantile(ours, UNDISTURBED) - quantile(encodings, UNDISTURBED);
  return {
    ratio: quantile(copies, UNDISTURBED) / undisturbed,
    p50: quantile(ours, 0.5),
    p99: quantile(ours, 0.99),
    copyP50: quantile(copies, 0.5),
    rate: (ours.length * BATCH_EVENTS * 1_000) / ours.reduce((a, b) => a + b, 0),
    readRatio: quantile(copiesOut, UNDISTURBED) / quantile(reads, UNDISTURBED),
    readRate: (stored * 1_000) / quantile(reads, 0.5),
    bytesPerEvent: bytes / stored,
    stopSeconds: stopMs / 1_000,
  };
}

/** As a feeder does that is behind. */
async function readAll(ledger: Ledger): Promise<void> {
  for (let after = 0; after < ledger.head(); ) {
    const page = await ledger.read(after, READ_EVENTS);
    if (page.kind === 'failed') throw new Error(page.message);
    after = page.lastSequence;
  }
}

/** A table as a day of the ledger is. */
async function createBareTable(copying: Copying): Promise<void> {
  await copying.run(`create schema bench; ${dayTable('bench.event')}`);
}

/** The rows of events in COPY's text format. */
function copyText(events: readonly EncodedEvent[], before: number): Buffer {
  const lines = events.map(({ event }, index) => {
    const { row } = splitEvent(event);
    const { windowStart, windowEnd, recordedAt, id, quantity } = row;
    const numbers = [before + index + 1, windowStart, windowEnd, recordedAt, index, 0];
    // The properties are those of the series.
    return [DAY, 1, ...numbers, id, quantity, ...textColumns({ ...row, extra: {} })].join('\t');
  });
  return Buffer.from(`${lines.join('\n')}\n`);
}

async function timeOf(work: () => Promise<unknown>): Promise<number> {
  globalThis.gc?.({ type: 'minor' });
  const from = performance.now();
  await work();
  return performance.now() - from;
}
