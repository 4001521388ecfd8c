import { execFileSync } from 'node:child_process';
import { open, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { systemClock } from '../../telemetry/system-clock.ts';
import { TimeSlice } from '../../telemetry/time-slice.ts';
import { openTestLedger } from '../testing/level-ledger.ts';
import { scratchDirectory } from '../testing/scratch.ts';
import { createStepClock } from '../testing/step-clock.ts';

afterEach(() => {
  vi.restoreAllMocks();
});

test('a window with thousands of records keeps everybody else waiting until all are written', async () => {
  const { path, remove } = await scratchDirectory();
  let looked = 0;
  const clock = { ...systemClock, monotonic: () => (looked += 1) };
  const ledger = await openTestLedger(path, { clock });
  const slices = vi.spyOn(TimeSlice.prototype, 'next');
  const records = Array.from({ length: 2_000 }, (_, index) => ({
    key: `journal/${index}`,
    value: `value ${index}`,
  }));
  expect(await ledger.append({ events: [], records })).toMatchObject({ kind: 'appended' });
  // Planning and writing use the same number of slices.
  expect(slices.mock.calls.length).toBeGreaterThan(120);
  const stored = new Map<string, string>();
  for await (const [key, value] of ledger.records('journal/')) stored.set(key, value);
  expect(stored).toStrictEqual(new Map(records.map(({ key, value }) => [key, value])));
  await ledger.close();
  await remove();
});

test('a write waits while the checksums of many new tables are read', async () => {
  const { path, remove } = await scratchDirectory();
  const clock = createStepClock(Date.parse('2026-11-21T09:00:00Z'));
  const ledger = await openTestLedger(path, { clock });
  const [segment = ''] = (await readdir(path)).filter((name) => name.startsWith('segment-'));
  const table = join(path, segment, '999999.ldb');
  // Reading this table does not end before somebody writes to it.
  execFileSync('mkfifo', [table]);
  clock.pass(60_000);
  const records = [{ key: 'a', value: '1' }];
  expect(await ledger.writeRecords(records)).toMatchObject({ kind: 'written' });
  expect(await ledger.writeRecords(records)).toMatchObject({ kind: 'written' });
  const writer = await open(table, 'w');
  await rm(table);
  await writer.close();
  await ledger.close();
  await remove();
});
