import { join } from 'node:path';
import { ClassicLevel } from 'classic-level';
import { expect, test } from 'vitest';
import type { Ledger, RecordChange } from '../ledger.ts';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testWindow } from '../testing/events.ts';
import { createMemoryLogger } from '../../telemetry/testing/memory-logger.ts';
import { seededRandom } from '../testing/seeded-random.ts';
import { useLedgers } from '../testing/use-ledgers.ts';
import { verifyDirectory } from '../tool/verify.ts';
import type { Failpoints } from './failpoints.ts';

const used = useLedgers();

/** More than are copied while writes wait, and several chunks. */
const MANY = 10_500;
/** No copy takes so long. */
const MOST_WINDOWS = 2_000;
const SEGMENT_LIMITS = { events: 5, bytes: Number.MAX_SAFE_INTEGER };
const FIRST_SEGMENT = 'segment-0000000000000001';
const windowAt = (index: number) => testWindow(TEST_WINDOW_START + index * TEST_WINDOW_MS, 5);
const keyOf = (number: number) => `requests/${String(number).padStart(6, '0')}`;
const valueOf = (text: string) => text.padEnd(150, '.');

/** A ledger whose next append begins a segment, and its records. */
async function openFull(failpoint: Failpoints) {
  const directory = await used.directory();
  const logger = createMemoryLogger();
  const ledger = await used.open(directory, { failpoint, logger, segmentLimits: SEGMENT_LIMITS });
  const keys = Array.from({ length: MANY }, (_, number) => keyOf(number));
  const records = new Map(keys.map((key) => [key, valueOf(key)]));
  await ledger.writeRecords([...records].map(([key, value]) => ({ key, value })));
  await ledger.append({ events: windowAt(0) });
  return { directory, ledger, records, logger };
}

async function recordsOf(ledger: Ledger): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for await (const [key, value] of ledger.records('')) found.set(key, value);
  return found;
}

/** Appends windows from the second on, each with a record, until a segment begins. */
async function appendUntilNext(ledger: Ledger, records: Map<string, string>): Promise<void> {
  for (let window = 1; ledger.stats().segments === 1; window += 1) {
    expect(window).toBeLessThan(MOST_WINDOWS);
    const record = {
      key: `window/${String(window).padStart(6, '0')}`,
      value: 'behind all requests',
    };
    records.set(record.key, record.value);
    const outcome = await ledger.append({ events: windowAt(window), records: [record] });
    expect(outcome).toMatchObject({ kind: 'appended' });
  }
}

test.each([1, 2, 3])(
  'while many records are copied nothing can be written, or the copy lacks what was: run %i',
  async (seed) => {
    const random = seededRandom(seed);
    let chunks = 0;
    // Each chunk waits for these writes, so they deadlock if writes wait for the copy.
    const { directory, ledger, records, logger } = await openFull(async (step) => {
      if (step !== 'roll:copying') return;
      chunks += 1;
      const changes = Array.from({ length: 200 }, (): RecordChange => {
        const key = keyOf(Math.floor(random() * (MANY + 500)));
        const value = random() < 0.3 ? undefined : valueOf(`${key} ${chunks}`);
        return { key, value };
      });
      for (const { key, value } of changes) {
        if (value === undefined) records.delete(key);
        else records.set(key, value);
      }
      expect(await ledger.writeRecords(changes)).toEqual({ kind: 'written' });
      expect(await ledger.commitCursor('lago', Math.min(chunks, 5))).toEqual({ kind: 'written' });
    });
    await appendUntilNext(ledger, records);
    expect(chunks).toBeGreaterThan(5);
    expect(logger.lines.filter((line) => line.startsWith('error'))).toEqual([]);
    expect(await recordsOf(ledger)).toEqual(records);
    expect((await ledger.verify()).errors).toEqual([]);
    const head = ledger.head();
    await ledger.close();

    const again = await used.open(directory, { segmentLimits: SEGMENT_LIMITS });
    expect(again.stats().problems).toEqual([]);
    expect(again.cursors()).toMatchObject([{ destination: 'lago', sequence: 5 }]);
    expect(await recordsOf(again)).toEqual(records);
    expect(await again.read(0, head)).toMatchObject({ kind: 'page' });
    await again.close();
  },
);

test('each sealed segment keeps a copy of all records until RETENTION, which fills the volume', async () => {
  const { directory, ledger, records } = await openFull(async () => undefined);
  await appendUntilNext(ledger, records);
  await ledger.close();
  const sealed = new ClassicLevel(join(directory, FIRST_SEGMENT), { createIfMissing: false });
  expect(await sealed.keys({ gte: 'c', lt: 'd' }).all()).toEqual([]);
  expect(await sealed.keys({ gte: 'r', lt: 't' }).all()).toEqual([]);
  await sealed.close();
  expect(await verifyDirectory(directory)).toMatchObject({ ok: true, errors: [] });
  const again = await used.open(directory, { segmentLimits: SEGMENT_LIMITS });
  expect(await again.read(0, 5)).toMatchObject({ kind: 'page', lastSequence: 5 });
  expect((await again.verify()).errors).toEqual([]);
});

test.each(['the copy', 'a write meanwhile'])(
  'an error of %s loses a record, or no segment ever begins',
  async (failing) => {
    let armed = 1;
    const fail = (): void => {
      if (armed === 0) return;
      armed -= 1;
      throw Object.assign(new Error('IO error: input/output error'), { code: 'LEVEL_IO_ERROR' });
    };
    let isCopying = false;
    const { ledger, records } = await openFull(async (step) => {
      if (step === 'roll:copying') {
        isCopying = true;
        if (failing === 'the copy') fail();
      }
      if (step === 'append:before-write' && isCopying && failing !== 'the copy') fail();
    });
    await appendUntilNext(ledger, records);
    expect(armed).toBe(0);
    expect(await recordsOf(ledger)).toEqual(records);
    expect((await ledger.verify()).errors).toEqual([]);
  },
);
