import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testWindow } from '../testing/events.ts';
import { useLedgers } from '../testing/use-ledgers.ts';
import { type Database, openDatabase } from './database.ts';
import { KEY_SPACE, numberKey } from './keys.ts';
import { segmentName } from './segment-names.ts';
import { SegmentPool } from './segment-pool.ts';
import type { SealedSegment } from './state.ts';

const used = useLedgers();
const SEGMENTS = 6;
const SEGMENT_EVENTS = 5;

/** A directory with several segments of five events each, and their list items. */
async function manySegments(): Promise<{ directory: string; segments: readonly SealedSegment[] }> {
  const directory = await used.directory();
  const segmentLimits = { events: SEGMENT_EVENTS, bytes: Number.MAX_SAFE_INTEGER };
  const ledger = await used.open(directory, { segmentLimits });
  for (let window = 0; window < SEGMENTS; window++) {
    const events = testWindow(TEST_WINDOW_START + window * TEST_WINDOW_MS, SEGMENT_EVENTS);
    await ledger.append({ events });
  }
  await ledger.close();
  const segments = Array.from({ length: SEGMENTS }, (_, index): SealedSegment => {
    const firstSequence = 1 + index * SEGMENT_EVENTS;
    return {
      firstSequence,
      lastSequence: firstSequence + SEGMENT_EVENTS - 1,
      firstChain: '',
      chain: '',
      openedAt: 0,
      bytes: 0,
      foreignIds: false,
      sealedAt: 0,
      damage: 'not compared with the list',
    };
  });
  return { directory, segments };
}

test('a segment that comes into use while others are being closed is not closed under its reader', async () => {
  const { directory, segments } = await manySegments();
  const pool = new SegmentPool(directory);
  const [a, b, c, d] = segments;
  if (a === undefined || b === undefined || c === undefined || d === undefined) throw new Error();
  const useUntilReleased = (segment: SealedSegment) => {
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const { promise: started, resolve: start } = Promise.withResolvers<void>();
    const ended = pool.use(segment, async () => {
      start();
      await released;
    });
    return { started, release, ended };
  };
  await pool.use(a, async () => undefined);
  await pool.use(b, async () => undefined);
  const [third, fourth] = [useUntilReleased(c), useUntilReleased(d)];
  await Promise.all([third.started, fourth.started]);
  // Four are open and two may stay open: this closes the first, then the second.
  third.release();
  await nextTurn();
  const firstOf = (database: Database) => database.get(numberKey(KEY_SPACE.event, b.firstSequence));
  const value = await pool.use(b, async (database) => {
    await third.ended;
    return firstOf(database);
  });
  expect(value).toBeInstanceOf(Buffer);
  fourth.release();
  await fourth.ended;
  expect(await pool.use(b, firstOf)).toBeInstanceOf(Buffer);
  await pool.close();
});

test('a sealed segment that another process has open is read later, and nobody is taken for the owner', async () => {
  const { directory, segments } = await manySegments();
  const [segment] = segments;
  if (segment === undefined) throw new Error();
  const ledger = await used.open(directory);
  const other = new SegmentPool(directory);
  await other.use(segment, async () => {
    expect(await ledger.read(0, 5)).toMatchObject({
      kind: 'failed',
      cause: 'retryable',
      message: expect.stringContaining('another process has this sealed segment open'),
    });
  });
  await other.close();
  expect(await ledger.read(0, 5)).toMatchObject({ kind: 'page', lastSequence: 5 });
  expect(await ledger.append({ events: testWindow(TEST_WINDOW_START, 1) })).toMatchObject({
    kind: 'appended',
  });
});

test('a segment that nothing reads any more is closed, and can be read again', async () => {
  const { directory, segments } = await manySegments();
  const [segment] = segments;
  if (segment === undefined) throw new Error();
  const pool = new SegmentPool(directory, 5);
  const used = await pool.use(segment, async (database) => database);
  await vi.waitFor(() => expect(used.status).toBe('closed'));
  expect(await pool.use(segment, async ({ status }) => status)).toBe('open');
  await pool.close();
});

test('a segment that was sealed a moment ago gives its buffers back, however often it is read', async () => {
  const { directory, segments } = await manySegments();
  const [segment] = segments;
  if (segment === undefined) throw new Error();
  const active = await openDatabase(join(directory, segmentName(segment.firstSequence)), 'active');
  const pool = new SegmentPool(directory, 5);
  await pool.adopt(segment.firstSequence, active);
  await vi.waitFor(
    async () => {
      const isAnother = await pool.use(segment, async (database) => database !== active);
      expect(isAnother).toBe(true);
    },
    { interval: 1 },
  );
  expect(active.status).toBe('closed');
  await pool.close();
});
