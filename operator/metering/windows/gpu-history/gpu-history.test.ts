import { expect, test } from 'vitest';
import { createManualClock, type ManualClock } from '../../../kubernetes/testing/manual-clock.ts';
import { type Ledger, LedgerReadError } from '../../../ledger/ledger.ts';
import { silentLogger } from '../../../ledger/testing/level-ledger.ts';
import { useLedgers } from '../../../ledger/testing/use-ledgers.ts';
import { gpuNode, H100, N1, N4, variant } from '../../meters/testing/gpu-nodes.ts';
import { cluster, pod } from '../../meters/testing/objects.ts';
import { gpuUnits } from '../../../model/gpu-units.ts';
import { clockAt, life, pass, settled, startProcess } from '../testing/harness.ts';
import { GpuHistory } from './gpu-history.ts';
import { decodeGpuRows, GPU_SHARES, type GpuRow } from './gpu-series.ts';

const used = useLedgers();
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const START = Date.parse('2026-03-01T12:00:00Z');
const never = new AbortController().signal;
const NO_HURRY = { isOver: false, next: async () => undefined };

/** Delivered GPU-seconds of every record, by the end of its key and then by tenant. */
async function deliveredOf(ledger: Ledger): Promise<Record<string, Record<string, number>>> {
  const all: Record<string, Record<string, number>> = {};
  for await (const [key, text] of ledger.records('gpus/shares/')) {
    const rows = decodeGpuRows(GPU_SHARES, text);
    all[key.slice('gpus/shares/'.length)] = Object.fromEntries(
      rows.map(({ tenant = 'none', amounts: [delivered = 0n] }) => [
        tenant,
        Number(delivered / gpuUnits(1)) / 1000,
      ]),
    );
  }
  return all;
}

/**
 * Real files take real time: runs until the ledger has the window that ends so many seconds after
 * the start.
 */
async function untilClosed(ledger: Ledger, clock: ManualClock, seconds: number): Promise<void> {
  while ((ledger.stats().lastWindowEnd ?? 0) < START + seconds * 1000) {
    await clock.advance(10);
    await settled();
  }
}

test('a process that is killed with a window under way counts no GPU time twice, and none is lost', async () => {
  const directory = await used.directory();
  const ledger = await used.open(directory);
  const clock = clockAt(-5);
  const training = pod({ ...life, node: 'n1', containers: [{ 'nvidia.com/gpu': '2' }] });
  const objects = { nodes: [gpuNode(N1)], pods: [training] };
  const first = await startProcess({ ledger, clock, objects });
  first.discover([cluster('a')]);
  await pass(clock, 70);
  await untilClosed(ledger, clock, 60);
  await first.kill();
  await pass(clock, 40);
  const second = await startProcess({ ledger, clock, objects });
  second.discover([cluster('a')]);
  await pass(clock, 80);
  await untilClosed(ledger, clock, 180);
  await second.kill();
  const { tenant } = cluster('a');
  const one = { [tenant]: 2 * 60, none: 6 * 60 };
  const all = { [tenant]: 3 * 2 * 60, none: 3 * 6 * 60 };
  expect(await deliveredOf(ledger)).toEqual({
    'window/2026-03-01T12:00:00Z': one,
    'window/2026-03-01T12:01:00Z': one,
    'window/2026-03-01T12:02:00Z': one,
    'hour/2026-03-01T12': all,
    'day/2026-03-01': all,
  });
});

test('a cluster without GPUs writes none of it', async () => {
  const ledger = await used.open(await used.directory());
  const clock = clockAt(-5);
  const objects = { nodes: [gpuNode({ name: 'n1', capacity: { cpu: '8' } })] };
  const process = await startProcess({ ledger, clock, objects });
  process.discover([cluster('a')]);
  await pass(clock, 70);
  await untilClosed(ledger, clock, 60);
  await process.kill();
  expect(await deliveredOf(ledger)).toEqual({});
});

function rowOf(tenant: string | undefined, delivered: bigint, gpuType = H100): GpuRow {
  return { tenant, gpuType, amounts: [delivered, delivered, 0n, 0n, 0n] };
}

async function write(ledger: Ledger, history: GpuHistory, start: number, rows: readonly GpuRow[]) {
  expect(await history.load(start, never)).toBeUndefined();
  const outcome = await ledger.writeRecords(await history.add(start, rows, NO_HURRY));
  expect(outcome.kind).toBe('written');
}

test('windows go after a day; the hours and days that they add up to stay, over a restart as well', async () => {
  const directory = await used.directory();
  const ledger = await used.open(directory);
  const clock = createManualClock(START);
  const options = { series: GPU_SHARES, ledger, clock, logger: silentLogger };
  let history = new GpuHistory(options);
  for (let start = START; start < START + 3 * 24 * HOUR; start += 20 * MINUTE) {
    await clock.advance(20 * MINUTE);
    // A seventh of a GPU has no finite decimal form.
    await write(ledger, history, start, [rowOf('a', gpuUnits(1, 7) * 20n * 60_000n)]);
    if (start === START + 30 * HOUR) history = new GpuHistory(options);
  }
  const stored = await deliveredOf(ledger);
  const keysOf = (kind: string) => Object.keys(stored).filter((key) => key.startsWith(kind));
  expect(keysOf('window')).toHaveLength(26 * 3);
  expect(keysOf('hour')).toHaveLength(72);
  expect(keysOf('day')).toHaveLength(4);
  const complete = await ledger.record('gpus/shares/day/2026-03-02');
  expect(complete).toBe(`{"v":1,"rows":[["a","${H100}","86400000/7","86400000/7","0","0","0"]]}`);
});

test('a window of the past is added to its own hour, and not stored by itself when it is older than a day', async () => {
  const ledger = await used.open(await used.directory());
  const clock = createManualClock(START + 48 * HOUR);
  const history = new GpuHistory({ series: GPU_SHARES, ledger, clock, logger: silentLogger });
  const second = gpuUnits(1) * 1000n;
  for (const start of [START + 47 * HOUR, START, START + 47 * HOUR, START, START + MINUTE]) {
    await write(ledger, history, start, [rowOf('a', second), rowOf(undefined, second)]);
  }
  expect(await deliveredOf(ledger)).toEqual({
    'window/2026-03-03T11:00:00Z': { a: 2, none: 2 },
    'hour/2026-03-01T12': { a: 3, none: 3 },
    'hour/2026-03-03T11': { a: 2, none: 2 },
    'day/2026-03-01': { a: 3, none: 3 },
    'day/2026-03-03': { a: 2, none: 2 },
  });
});

test('a fleet that is very large keeps fewer windows, and every hour', async () => {
  const ledger = await used.open(await used.directory());
  const clock = createManualClock(START + HOUR);
  const history = new GpuHistory({ series: GPU_SHARES, ledger, clock, logger: silentLogger });
  const rows = Array.from({ length: 3_000 }, (_, index) =>
    rowOf(`tenant-${index}-${'x'.repeat(240)}`, gpuUnits(1) * 60_000n),
  );
  for (let minute = 0; minute < 20; minute += 1) {
    await write(ledger, history, START + minute * MINUTE, rows);
  }
  let characters = 0;
  const windows: string[] = [];
  for await (const [key, { length }] of ledger.records('gpus/shares/window/')) {
    characters += length;
    windows.push(key);
  }
  expect(characters).toBeLessThan(16 * 2 ** 20);
  expect(windows.at(-1)).toBe('gpus/shares/window/2026-03-01T12:19:00Z');
  expect(windows.length).toBeGreaterThan(5);
  expect(windows.length).toBeLessThan(20);
});

test('while the ledger cannot be reached a window waits; where its bytes are damaged nothing goes on', async () => {
  const ledger = await used.open(await used.directory());
  const clock = createManualClock(START);
  let failures = 3;
  const failing = (cause: 'retryable' | 'corrupt') => ({
    record: (key: string) => ledger.record(key),
    records: (prefix: string) => {
      failures -= 1;
      if (failures < 0) return ledger.records(prefix);
      throw new LedgerReadError({ kind: 'failed', cause, message: 'no answer' });
    },
  });
  const options = { series: GPU_SHARES, clock, logger: silentLogger };
  const history = new GpuHistory({ ...options, ledger: failing('retryable') });
  const loaded = history.load(START, never);
  for (let seconds = 0; seconds < 4; seconds += 1) await clock.advance(1000);
  expect(await loaded).toBeUndefined();
  failures = Number.MAX_SAFE_INTEGER;
  const stop = new AbortController();
  const stopped = new GpuHistory({ ...options, ledger: failing('retryable') });
  const ended = stopped.load(START, stop.signal);
  stop.abort();
  expect(await ended).toEqual({ kind: 'aborted' });
  const damaged = new GpuHistory({ ...options, ledger: failing('corrupt') });
  expect(await damaged.load(START, never)).toEqual({ kind: 'ledger', reason: 'no answer' });
});

test('a share that no text of a decimal can hold is read as it was written', async () => {
  const ledger = await used.open(await used.directory());
  const clock = clockAt(-5);
  const slices = pod({ ...life, node: 'n1', containers: [{ 'nvidia.com/mig-1g.10gb': '3' }] });
  const objects = { nodes: [gpuNode(variant(N4, { name: 'n1' }))], pods: [slices] };
  const process = await startProcess({ ledger, clock, objects });
  process.discover([cluster('a')]);
  await pass(clock, 70);
  await untilClosed(ledger, clock, 60);
  await process.kill();
  const text = await ledger.record('gpus/shares/hour/2026-03-01T12');
  const rows = decodeGpuRows(GPU_SHARES, text ?? '{}');
  const mine = rows.find(({ tenant }) => tenant === cluster('a').tenant);
  expect(mine?.amounts[0]).toBe(gpuUnits(3, 7) * 60_000n);
  const sum = rows.reduce((total, { amounts: [delivered = 0n] }) => total + delivered, 0n);
  expect(sum).toBe(rows.reduce((total, { amounts }) => total + (amounts[4] ?? 0n), 0n));
});
