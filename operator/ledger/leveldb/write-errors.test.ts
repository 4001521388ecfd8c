import { describe, expect, test } from 'vitest';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testWindow } from '../testing/events.ts';
import { useLedgers } from '../testing/use-ledgers.ts';
import type { Failpoint, Failpoints } from './failpoints.ts';

const used = useLedgers();

/** Throws at a step while it is armed. */
function createFault(step: Failpoint): { failpoint: Failpoints; arm(times: number): void } {
  let left = 0;
  return {
    arm(times) {
      left = times;
    },
    failpoint: async (reached) => {
      if (reached !== step || left === 0) return;
      left -= 1;
      throw Object.assign(new Error('IO error: No space left on device'), {
        code: 'LEVEL_IO_ERROR',
      });
    },
  };
}

const windowAt = (index: number) => testWindow(TEST_WINDOW_START + index * TEST_WINDOW_MS, 5);

describe('a write error', () => {
  test.each<Failpoint>(['append:before-write', 'append:after-write'])(
    'at the step %s is survived once without the caller noticing, and nothing is stored twice',
    async (step) => {
      const directory = await used.directory();
      const fault = createFault(step);
      const ledger = await used.open(directory, { failpoint: fault.failpoint });
      await ledger.append({ events: windowAt(0) });
      fault.arm(1);
      const outcome = await ledger.append({
        events: windowAt(1),
        records: [{ key: 'k', value: 'v' }],
      });
      expect(outcome).toMatchObject({
        kind: 'appended',
        outcomes: windowAt(1).map(() => 'accepted'),
        head: 10,
      });
      expect(await ledger.record('k')).toBe('v');
      expect((await ledger.verify()).errors).toEqual([]);
    },
  );

  test('that lasts is reported as full, acknowledges nothing, and is over when there is room again', async () => {
    const directory = await used.directory();
    const fault = createFault('append:before-write');
    const ledger = await used.open(directory, { failpoint: fault.failpoint });
    fault.arm(3);
    expect(await ledger.append({ events: windowAt(0) })).toMatchObject({
      kind: 'failed',
      cause: 'full',
    });
    expect(ledger.head()).toBe(0);
    expect(await ledger.append({ events: windowAt(0) })).toMatchObject({ head: 5 });
    await ledger.close();
    const again = await used.open(directory);
    expect(again.head()).toBe(5);
    expect(again.stats().problems).toEqual([]);
  });

  test('that stored the batch after all answers duplicate to the repeat', async () => {
    const directory = await used.directory();
    const reopening = createFault('recover:before-open');
    const writing = createFault('append:after-write');
    const ledger = await used.open(directory, {
      failpoint: async (step) => {
        await reopening.failpoint(step);
        await writing.failpoint(step);
      },
    });
    writing.arm(1);
    reopening.arm(3);
    expect(await ledger.append({ events: windowAt(0) })).toMatchObject({ kind: 'failed' });
    expect(await ledger.append({ events: windowAt(0) })).toMatchObject({
      outcomes: windowAt(0).map(() => 'duplicate'),
      head: 5,
    });
  });

  test('while the ledger cannot be opened again leaves reading and writing refused, not wrong', async () => {
    const directory = await used.directory();
    const reopening = createFault('recover:before-open');
    const writing = createFault('append:before-write');
    const ledger = await used.open(directory, {
      failpoint: async (step) => {
        await reopening.failpoint(step);
        await writing.failpoint(step);
      },
    });
    await ledger.append({ events: windowAt(0) });
    writing.arm(1);
    reopening.arm(3);
    await ledger.append({ events: windowAt(1) });
    expect(await ledger.read(0, 10)).toMatchObject({ kind: 'failed', cause: 'retryable' });
    expect(await ledger.commitCursor('lago', 5)).toEqual({ kind: 'written' });
    expect(await ledger.read(0, 10)).toMatchObject({ kind: 'page', lastSequence: 5 });
  });

  test.each<Failpoint>([
    'roll:before-create',
    'roll:copying',
    'roll:before-rename',
    'roll:before-open',
  ])('while a segment begins, at the step %s, loses nothing and is tried again', async (step) => {
    const directory = await used.directory();
    const fault = createFault(step);
    const ledger = await used.open(directory, {
      failpoint: fault.failpoint,
      segmentLimits: { events: 5, bytes: Number.MAX_SAFE_INTEGER },
    });
    const big = 'x'.repeat(600_000);
    await ledger.append({
      events: windowAt(0),
      records: ['a', 'b', 'c'].map((key) => ({ key, value: big })),
    });
    fault.arm(1);
    expect(await ledger.append({ events: windowAt(1) })).toMatchObject({ head: 10 });
    expect(await ledger.append({ events: windowAt(2) })).toMatchObject({ head: 15 });
    expect(ledger.stats().segments).toBeGreaterThan(1);
    expect(await ledger.record('c')).toBe(big);
    expect(await ledger.read(0, 5)).toMatchObject({ lastSequence: 5 });
    expect((await ledger.verify()).errors).toEqual([]);
    await ledger.close();
    const again = await used.open(directory);
    expect(again.head()).toBe(15);
    expect(again.stats().problems).toEqual([]);
  });
});
