import { execFile } from 'node:child_process';
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
import { cutPower, diskFaultEnvironment } from './disk-faults.ts';

/** More with FAULT_RUNS, for a long run; FAULT_SEED repeats one. */
const RUNS = Number(process.env['FAULT_RUNS'] ?? 10);
const SEED = Number(process.env['FAULT_SEED'] ?? 1);
const RUN_MS = 3_000;
const SEGMENT_EVENTS = 60;

const run = promisify(execFile);
const removals: (() => Promise<void>)[] = [];

async function scratch(): Promise<{ readonly data: string; readonly log: string }> {
  const { path, remove } = await scratchDirectory();
  removals.push(remove);
  return { data: join(path, 'data'), log: join(path, 'synced') };
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
  const cut = async (
    seed: number,
    forgetful: boolean,
    share: () => number,
  ): Promise<readonly string[]> => {
    const random = seededRandom(seed);
    const { data: directory, log } = await scratch();
    const environment = await diskFaultEnvironment({ directory, log, forgetful });
    const acknowledged = await crashWriter({
      directory,
      segmentEvents: SEGMENT_EVENTS,
      afterWindows: 1 + Math.floor(random() * 40),
      delayMs: Math.floor(random() * 5),
      environment,
    });
    await cutPower(directory, log, share);
    return inspect(directory, acknowledged);
  };

  test(
    `takes nothing that was acknowledged, ${RUNS} times`,
    async () => {
      for (let seed = SEED; seed < SEED + RUNS; seed++) {
        const random = seededRandom(seed);
        const share = seed % 2 === 0 ? random : () => 0;
        expect(await cut(seed, false, share), `seed ${seed}`).toEqual([]);
      }
    },
    RUN_MS * RUNS,
  );

  test('would be noticed by this test if writes were not synced', async () => {
    expect(await cut(SEED, true, () => 0)).not.toEqual([]);
  });
});

describe('a sync that fails', () => {
  test.each(Array.from({ length: 12 }, (_, index) => 4 + index * 3))(
    'with EIO, the %i-th, loses nothing and leaves the ledger working',
    async (syncError) => {
      const { data: directory } = await scratch();
      const acknowledged = await crashWriter({
        directory,
        segmentEvents: SEGMENT_EVENTS,
        afterWindows: 30,
        environment: await diskFaultEnvironment({ directory, syncError }),
      });
      expect(acknowledged?.window).toBeGreaterThanOrEqual(30);
      expect(await inspect(directory, acknowledged)).toEqual([]);
    },
  );
});

describe('a full disk', () => {
  /** A volume of its own, in a namespace of its own where the system lets us, else mounted as root. */
  const onSmallVolume = async (leaveKiB: number): Promise<Record<string, unknown>> => {
    const { data } = await scratch();
    const script = join(import.meta.dirname, 'full-disk-process.ts');
    const shell =
      'mkdir -p "$1" && mount -t tmpfs -o size=4m tmpfs "$1" && exec "$2" "$3" "$1" "$4"';
    const { stdout } = await run('unshare', [
      ...['-Urm', 'sh', '-c', shell, 'sh'],
      ...[data, process.execPath, script, String(leaveKiB)],
    ]);
    return JSON.parse(stdout) as Record<string, unknown>;
  };

  test.each([0, 4, 16, 48, 100, 200, 350])(
    'met with %i KiB left refuses clearly, loses nothing, and needs no hand once there is room',
    async (leaveKiB) => {
      const outcome = await onSmallVolume(leaveKiB);
      expect(outcome).toMatchObject({
        whileFull: 'refused',
        afterwards: 'stored',
        causes: ['full'],
        problems: [],
      });
    },
  );
});
