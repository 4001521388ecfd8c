import { ok } from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, describe, expect, test } from 'vitest';
import {
  type Acknowledged,
  crashWriter,
  inspectAfterCrash,
} from '../../operator/ledger/testing/crash.ts';
import { openTestLedger } from '../../operator/ledger/testing/level-ledger.ts';
import { scratchDirectory } from '../../operator/ledger/testing/scratch.ts';
import { seededRandom } from '../../operator/ledger/testing/seeded-random.ts';
import { cutPower, takeBaseline } from './disk/power-cut.ts';
import { prepareShim } from './disk/shim.ts';

/** More with FAULT_RUNS, for a long run; FAULT_SEED repeats one. */
const RUNS = Number(process.env['FAULT_RUNS'] ?? 10);
const SEED = Number(process.env['FAULT_SEED'] ?? 1);
const RUN_MS = 12_000;
const SEGMENT_EVENTS = 60;
/** Syncs of setting up and opening a ledger. */
const OPENING_SYNCS = 18;
const FULL_DISK = join(import.meta.dirname, 'full-disk-process.ts');
const FULL_START = join(import.meta.dirname, 'full-start-process.ts');

const run = promisify(execFile);
const removals: (() => Promise<void>)[] = [];

async function scratch(): Promise<{ readonly path: string; readonly data: string }> {
  const { path, remove } = await scratchDirectory();
  removals.push(remove);
  return { path, data: join(path, 'data') };
}

/** Opens what a fault has left; the words of what is wrong with it. */
async function inspect(
  directory: string,
  acknowledged: Acknowledged | undefined,
): Promise<readonly string[]> {
  const ledger = await openTestLedger(directory).catch((error: unknown) => String(error));
  if (typeof ledger === 'string') return [ledger];
  try {
    return await inspectAfterCrash(ledger, acknowledged);
  } finally {
    await ledger.close();
  }
}

afterEach(async () => {
  for (const remove of removals.splice(0)) await remove();
});

describe('a power cut', () => {
  const cut = async (seed: number, forgetSyncs: boolean): Promise<readonly string[]> => {
    const random = seededRandom(seed);
    const { path, data: directory } = await scratch();
    const shim = await prepareShim(path, directory, { forgetSyncs });
    const baseline = takeBaseline(directory, join(path, 'before'));
    const acknowledged = await crashWriter({
      directory,
      segmentEvents: SEGMENT_EVENTS,
      afterWindows: 1 + Math.floor(random() * 40),
      delayMs: Math.floor(random() * 5),
      environment: shim.environment,
    });
    const result = join(path, 'after');
    const traced = statSync(shim.trace.file).size;
    cutPower({ baseline, seen: directory, result, trace: shim.trace, traced, seed });
    return inspect(result, acknowledged);
  };

  test(
    `takes nothing that was acknowledged, ${RUNS} times`,
    async () => {
      for (let seed = SEED; seed < SEED + RUNS; seed++) {
        expect(await cut(seed, false), `seed ${seed}`).toEqual([]);
      }
    },
    RUN_MS * RUNS,
  );

  test('would be noticed by this test if writes were not synced', async () => {
    expect(await cut(SEED, true)).not.toEqual([]);
  });
});

describe('a sync that fails with EIO', () => {
  const failAt = async (syncError: number): Promise<readonly string[]> => {
    const { path, data: directory } = await scratch();
    const { environment } = await prepareShim(path, directory, { failSync: syncError });
    const plan = { directory, segmentEvents: SEGMENT_EVENTS, afterWindows: 30, environment };
    // While it is being set up or opened the process may end; what is left must be good.
    const strict = syncError > OPENING_SYNCS;
    const acknowledged = strict
      ? await crashWriter(plan)
      : await crashWriter(plan).catch(() => undefined);
    if (strict) ok((acknowledged?.window ?? 0) >= 30, 'it did not go on');
    return inspect(directory, acknowledged);
  };

  test.each(Array.from({ length: 8 }, (_, index) => 1 + index * 6))(
    'as sync number %i loses nothing and leaves the ledger working',
    async (syncError) => {
      expect(await failAt(syncError)).toEqual([]);
    },
  );
});

describe('a full disk', () => {
  const wanted = { whileFull: 'refused', afterwards: 'stored', causes: ['full'], problems: [] };

  test.each([0, 1, 4])(
    'with %i KiB left keeps an operator from starting, although RESERVE is there',
    async (kibibytes) => {
      const { path } = await scratch();
      const shim = await prepareShim(path, join(path, 'data'));
      const args = [FULL_START, path, String(kibibytes), shim.control, shim.trace.file];
      const { stdout } = await run(process.execPath, args, {
        env: { ...process.env, ...shim.environment },
      });
      expect(JSON.parse(stdout)).toEqual({
        kind: 'opened',
        head: 400,
        moved: 'written',
        appended: 'appended',
        problems: [],
      });
    },
  );

  test.each([0, 3, 40, 300])(
    'met after %i KiB refuses clearly, loses nothing, and needs no hand once there is room',
    async (kibibytes) => {
      const { path } = await scratch();
      const shim = await prepareShim(path, join(path, 'data'));
      const args = [FULL_DISK, path, String(kibibytes), shim.control, shim.trace.file];
      const { stdout } = await run(process.execPath, args, {
        env: { ...process.env, ...shim.environment },
      });
      expect(JSON.parse(stdout)).toMatchObject(wanted);
    },
  );
});
