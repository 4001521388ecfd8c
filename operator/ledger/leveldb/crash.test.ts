import { afterEach, describe, expect, test } from 'vitest';
import { crashWriter, inspectAfterCrash, type Acknowledged } from '../testing/crash.ts';
import { openTestLedger } from '../testing/level-ledger.ts';
import { scratchDirectory } from '../testing/scratch.ts';
import type { Failpoint } from './failpoints.ts';

/** More with LEDGER_KILLS, for a long run. */
const KILLS = Number(process.env['LEDGER_KILLS'] ?? 20);
const RUN_MS = 8_000;

const removals: (() => Promise<void>)[] = [];

async function emptyDirectory(): Promise<string> {
  const { path, remove } = await scratchDirectory();
  removals.push(remove);
  return path;
}

async function reopen(
  directory: string,
  acknowledged: Acknowledged | undefined,
): Promise<readonly string[]> {
  const ledger = await openTestLedger(directory);
  try {
    return await inspectAfterCrash(ledger, acknowledged);
  } finally {
    await ledger.close();
  }
}

/** More than a new segment copies while writes wait. */
async function writeManyRecords(directory: string): Promise<void> {
  const ledger = await openTestLedger(directory);
  const value = 'x'.repeat(120);
  const records = Array.from({ length: 11_000 }, (_, index) => ({ key: `many/${index}`, value }));
  expect(await ledger.writeRecords(records)).toEqual({ kind: 'written' });
  await ledger.close();
}

afterEach(async () => {
  for (const remove of removals.splice(0)) await remove();
});

describe('a process that is killed', () => {
  test(
    'loses nothing it acknowledged and leaves no half window, however often it happens',
    async () => {
      const directory = await emptyDirectory();
      for (let kill = 0; kill < KILLS; kill++) {
        const acknowledged = await crashWriter({
          directory,
          segmentEvents: 60,
          afterWindows: 1 + ((kill * 7) % 23),
          delayMs: (kill * 3) % 5,
        });
        expect(await reopen(directory, acknowledged), `after kill ${kill}`).toEqual([]);
      }
    },
    RUN_MS * KILLS,
  );

  const steps: readonly Failpoint[] = [
    'append:before-write',
    'append:after-write',
    'roll:before-create',
    'roll:before-rename',
    'roll:after-rename',
    'roll:before-open',
    'retain:before-forget',
    'retain:after-forget',
    'retain:after-rename',
  ];
  test.each(steps)('loses nothing at the step %s, twice in a row', async (step) => {
    const directory = await emptyDirectory();
    for (const hit of [2, 1]) {
      const acknowledged = await crashWriter({
        directory,
        segmentEvents: 25,
        failpoint: { step, hit },
      });
      expect(await reopen(directory, acknowledged)).toEqual([]);
    }
  });

  test.each<Failpoint>([
    'roll:copying',
    'roll:before-rename',
    'roll:after-rename',
    'roll:before-open',
  ])(
    'loses nothing while many records are copied beside its writes, at the step %s',
    async (step) => {
      const directory = await emptyDirectory();
      await writeManyRecords(directory);
      for (const hit of [3, 1]) {
        const failpoint = { step, hit };
        const acknowledged = await crashWriter({ directory, segmentEvents: 25, failpoint });
        expect(await reopen(directory, acknowledged)).toEqual([]);
      }
    },
  );

  test.each<Failpoint>(['set-up:before-head', 'set-up:before-identity', 'set-up:after-identity'])(
    'leaves a directory that can be opened when a ledger is being set up, at the step %s',
    async (step) => {
      const directory = await emptyDirectory();
      const failpoint = { step, hit: 1 };
      expect(await crashWriter({ directory, segmentEvents: 25, failpoint })).toBeUndefined();
      expect(await reopen(directory, undefined)).toEqual([]);
    },
  );
});
