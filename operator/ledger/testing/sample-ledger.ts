import type { Ledger, StoredEvent } from '../ledger.ts';
import { LedgerReadError } from '../ledger.ts';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testWindow } from './events.ts';
import { openTestLedger } from './level-ledger.ts';

/** The complete content of a ledger. */
export interface LedgerContent {
  readonly events: readonly StoredEvent[];
  readonly records: readonly (readonly [string, string])[];
  readonly cursors: readonly unknown[];
  readonly lastWindowEnd: number | undefined;
}

const WINDOWS = 40;
const EVENTS_PER_WINDOW = 10;
const SEGMENT_EVENTS = 150;

/**
 * Fills a directory with a ledger of three segments, records and cursors, and returns its content.
 * Closes and reads it in between, so that LevelDB has tables as well as logs.
 */
export async function createSampleLedger(directory: string): Promise<LedgerContent> {
  const half = WINDOWS / 2;
  await withSampleLedger(directory, (ledger) => appendWindows(ledger, 0, half));
  await withSampleLedger(directory, async (ledger) => {
    await appendWindows(ledger, half, WINDOWS - 5);
    await readContent(ledger);
  });
  return withSampleLedger(directory, async (ledger) => {
    await appendWindows(ledger, WINDOWS - 5, WINDOWS);
    const content = await readContent(ledger);
    if (typeof content === 'string') throw new Error(content);
    return content;
  });
}

async function withSampleLedger<T>(
  directory: string,
  work: (ledger: Ledger) => Promise<T>,
): Promise<T> {
  const segmentLimits = { events: SEGMENT_EVENTS, bytes: Number.MAX_SAFE_INTEGER };
  const ledger = await openTestLedger(directory, { segmentLimits });
  try {
    return await work(ledger);
  } finally {
    await ledger.close();
  }
}

async function appendWindows(ledger: Ledger, from: number, to: number): Promise<void> {
  for (let window = from; window < to; window++) {
    const windowStart = TEST_WINDOW_START + window * TEST_WINDOW_MS;
    const records = [
      { key: 'journal', value: `window ${window}` },
      { key: `gap/${window % 12}`, value: 'x'.repeat(40 + window) },
    ];
    const events = testWindow(windowStart, EVENTS_PER_WINDOW);
    const windowEnd = windowStart + TEST_WINDOW_MS;
    const outcome = await ledger.append({ events, records, windowEnd });
    if (outcome.kind === 'failed') throw new Error(outcome.message);
    await ledger.commitCursor('webhook', outcome.head);
    await ledger.commitCursor('lago', Math.max(0, outcome.head - 25));
  }
}

/** Reads everything; returns the failure's message if something cannot be read. */
export async function readContent(ledger: Ledger): Promise<LedgerContent | string> {
  const events: StoredEvent[] = [];
  const records: (readonly [string, string])[] = [];
  try {
    for (let after = 0; ; ) {
      const page = await ledger.read(after, 1_000);
      if (page.kind === 'failed') return page.message;
      if (page.events.length === 0) break;
      events.push(...page.events);
      after = page.lastSequence;
    }
    for await (const record of ledger.records('')) records.push(record);
  } catch (error) {
    if (error instanceof LedgerReadError) return error.message;
    throw error;
  }
  const cursors = ledger.cursors().toSorted((a, b) => (a.destination < b.destination ? -1 : 1));
  return { events, records, cursors, lastWindowEnd: ledger.stats().lastWindowEnd };
}
