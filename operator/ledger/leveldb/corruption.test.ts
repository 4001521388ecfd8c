import { cp, open, readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testWindow } from '../testing/events.ts';
import { openTestLedger, testOptions } from '../testing/level-ledger.ts';
import { createSampleLedger, type LedgerContent, readContent } from '../testing/sample-ledger.ts';
import { scratchDirectory } from '../testing/scratch.ts';
import { seededRandom } from '../testing/seeded-random.ts';
import { openLevelLedger } from './open-level-ledger.ts';

/** More with LEDGER_FLIPS, for a long run. */
const FLIPS = Number(process.env['LEDGER_FLIPS'] ?? 120);
const SEED = Number(process.env['LEDGER_SEED'] ?? 4);
const RUN_MS = 500;

let original: string;
let copy: string;
let content: LedgerContent;
let files: readonly string[];
let remove: () => Promise<void>;

beforeAll(async () => {
  const scratch = await scratchDirectory();
  remove = scratch.remove;
  original = join(scratch.path, 'original');
  copy = join(scratch.path, 'copy');
  content = await createSampleLedger(original);
  const entries = await readdir(original, { recursive: true, withFileTypes: true });
  files = entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(original.length + 1))
    .toSorted();
});

afterAll(() => remove());

/**
 * Damages a copy of the ledger and reads all of it. Returns `equal`, or the message that reports
 * the damage.
 */
async function readDamaged(damage: (directory: string) => Promise<void>): Promise<string> {
  await rm(copy, { recursive: true, force: true });
  await cp(original, copy, { recursive: true });
  await damage(copy);
  const outcome = await openLevelLedger(testOptions(copy));
  if (outcome.kind === 'failed') return outcome.message;
  const { ledger } = outcome;
  try {
    const found = await readContent(ledger);
    if (typeof found === 'string') return found;
    const [problem] = ledger.stats().problems;
    if (problem !== undefined) return problem;
    expect(found).toEqual(content);
    return 'equal';
  } finally {
    await ledger.close();
  }
}

describe('damage is found or does no harm', () => {
  test('a copy without damage is equal', async () => {
    expect(await readDamaged(async () => undefined)).toBe('equal');
  });

  test(
    `one flipped bit at ${FLIPS} random places of any file never changes what is read`,
    async () => {
      const random = seededRandom(SEED);
      const reported = new Set<boolean>();
      for (let flip = 0; flip < FLIPS; flip++) {
        const name = files[Math.floor(random() * files.length)] ?? '';
        const { size } = await stat(join(original, name));
        const offset = Math.floor(random() * size);
        const bit = Math.floor(random() * 8);
        const outcome = await readDamaged((directory) =>
          flipBit(join(directory, name), offset, bit),
        );
        reported.add(outcome === 'equal');
      }
      expect(reported).toEqual(new Set([true, false]));
    },
    RUN_MS * FLIPS,
  );

  test('a flipped bit in any table is reported before LevelDB reads it, which might end the process', async () => {
    const tables = files.filter((name) => name.endsWith('.ldb'));
    expect(tables.length).toBeGreaterThan(3);
    for (const table of tables) {
      const { size } = await stat(join(original, table));
      for (const share of [0, 0.3, 0.7, 0.999]) {
        const offset = Math.floor(size * share);
        const outcome = await readDamaged((directory) =>
          flipBit(join(directory, table), offset, 3),
        );
        expect(outcome).toContain(`${table}: its checksum has changed`);
      }
    }
  });

  test('a log of LevelDB cut short at any place is reported', async () => {
    const log = await activeFile(/\.log$/);
    const { size } = await stat(join(original, log));
    for (let length = 0; length < size; length += Math.ceil(size / 25)) {
      const outcome = await readDamaged((directory) => truncate(join(directory, log), length));
      expect(outcome, `${log} cut to ${length} of ${size}`).toContain('lost');
    }
  });

  test('a log of LevelDB whose end is zeroed is reported', async () => {
    const log = await activeFile(/\.log$/);
    const bytes = await readFile(join(original, log));
    for (let from = 97; from < bytes.length; from += Math.ceil(bytes.length / 15)) {
      const zeroed = Buffer.concat([bytes.subarray(0, from), Buffer.alloc(bytes.length - from)]);
      const outcome = await readDamaged((directory) => writeFile(join(directory, log), zeroed));
      expect(outcome, `${log} zeroed from ${from}`).not.toBe('equal');
    }
  });

  test.each([
    ['IDENTITY', /^IDENTITY$/],
    ['HEAD', /^HEAD$/],
    ['CURRENT', /CURRENT$/],
    ['MANIFEST', /MANIFEST-\d+$/],
    ['a log', /\.log$/],
  ])('a missing %s is reported by name, and nothing further is deleted', async (_, pattern) => {
    const name = await activeFile(pattern);
    const outcome = await readDamaged((directory) => rm(join(directory, name)));
    expect(outcome).not.toBe('equal');
    const missing = files.filter((file) => file.endsWith('.ldb'));
    for (const table of missing) await stat(join(copy, table));
  });

  test('a MANIFEST cut in half is refused before LevelDB deletes what it forgot', async () => {
    const name = await activeFile(/MANIFEST-\d+$/);
    const { size } = await stat(join(original, name));
    const outcome = await readDamaged((directory) =>
      truncate(join(directory, name), Math.floor(size / 2)),
    );
    expect(outcome).toContain(name);
  });

  test('a missing sealed segment is reported, and does not keep the ledger from opening', async () => {
    const outcome = await readDamaged((directory) =>
      rm(join(directory, 'segment-0000000000000001'), { recursive: true }),
    );
    expect(outcome).toContain('segment-0000000000000001');
  });

  test('a missing active segment is not replaced by an older one', async () => {
    const name = (await activeFile(/CURRENT$/)).slice(0, 'segment-0000000000000001'.length);
    const outcome = await readDamaged((directory) =>
      rm(join(directory, name), { recursive: true }),
    );
    expect(outcome).toContain(`${name}: missing`);
  });
});

describe('numbers that were lost', () => {
  test('are never given again, and the missing range stays known over restarts', async () => {
    await rm(copy, { recursive: true, force: true });
    await cp(original, copy, { recursive: true });
    const log = await activeFile(/\.log$/);
    await truncate(join(copy, log), 0);
    const refill = testWindow(TEST_WINDOW_START + 100 * TEST_WINDOW_MS, 3);
    const first = await openTestLedger(copy);
    const lastStored = first.stats().problems.find((text) => text.includes('missing'));
    expect(lastStored).toMatch(/events \d+ to 400: missing/);
    expect(await first.append({ events: refill })).toMatchObject({ head: 403 });
    expect(await first.read(400, 10)).toMatchObject({ kind: 'page', lastSequence: 403 });
    await first.close();

    const second = await openTestLedger(copy);
    expect(second.stats().problems).toEqual([lastStored]);
    expect((await second.verify()).ok).toBe(false);
    await second.close();
  });

  test('are not forgotten when the start that finds them fails', async () => {
    await rm(copy, { recursive: true, force: true });
    await cp(original, copy, { recursive: true });
    await truncate(join(copy, await activeFile(/\.log$/)), 0);
    const failing = await openLevelLedger(
      testOptions(copy, {
        failpoint: async (step) => {
          if (step === 'roll:before-create') throw new Error('no room for a new segment');
        },
      }),
    );
    expect(failing).toMatchObject({ kind: 'failed', cause: 'retryable' });
    const ledger = await openTestLedger(copy);
    expect(ledger.stats().problems.join()).toMatch(/events \d+ to 400: missing/);
    expect(ledger.head()).toBe(400);
    await ledger.close();
  });
});

async function activeFile(pattern: RegExp): Promise<string> {
  const name = files.findLast((file) => pattern.test(file));
  if (name === undefined) throw new Error(`no file like ${String(pattern)} in: ${files.join(' ')}`);
  return name;
}

async function flipBit(path: string, offset: number, bit: number): Promise<void> {
  const handle = await open(path, 'r+');
  try {
    const byte = Buffer.alloc(1);
    await handle.read(byte, 0, 1, offset);
    byte.writeUInt8(byte.readUInt8() ^ (1 << bit));
    await handle.write(byte, 0, 1, offset);
  } finally {
    await handle.close();
  }
}
