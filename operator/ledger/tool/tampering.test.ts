import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { ClassicLevel } from 'classic-level';
import { beforeEach, expect, test } from 'vitest';
import { openValue, sealValue } from '../checked-value.ts';
import { KEY_SPACE, numberKey } from '../leveldb/keys.ts';
import { TEST_WINDOW_START, testWindow } from '../testing/events.ts';
import { useLedgers } from '../testing/use-ledgers.ts';
import { verifyDirectory } from './verify.ts';

/** An attacker with the volume, the sources and time: afterwards every checksum is right. */

const used = useLedgers();
const SEGMENT = 'segment-0000000000000001';
let directory: string;

beforeEach(async () => {
  directory = await used.directory();
  const ledger = await used.open(directory);
  await ledger.append({ events: testWindow(TEST_WINDOW_START, 4) });
  await ledger.close();
});

interface Volume {
  readonly read: (sequence: number) => Promise<string>;
  readonly write: (sequence: number, text: string) => Promise<void>;
}

/** The result of `verify` for a tampered copy. */
async function afterwards(tamper: (volume: Volume) => Promise<void>): Promise<readonly string[]> {
  const copy = await used.directory();
  await cp(directory, copy, { recursive: true });
  const options = { keyEncoding: 'buffer', valueEncoding: 'buffer' } as const;
  const database = new ClassicLevel<Buffer, Buffer>(join(copy, SEGMENT), options);
  await tamper({
    read: async (sequence) => {
      const value = await database.get(numberKey(KEY_SPACE.event, sequence));
      return openValue(sequence, value ?? Buffer.alloc(0))?.toString() ?? '';
    },
    write: (sequence, text) =>
      database.put(numberKey(KEY_SPACE.event, sequence), sealValue(sequence, text)),
  });
  await database.close();
  return (await verifyDirectory(copy)).errors;
}

test('nothing is found where nothing was changed', async () => {
  const errors = await afterwards(async ({ read, write }) => write(2, await read(2)));
  expect(errors).toEqual([]);
});

test('a rewritten quantity is found by the chain', async () => {
  const errors = await afterwards(async ({ read, write }) => {
    const text = await read(2);
    expect(text).toContain('0.016666667');
    await write(2, text.replace('0.016666667', '0.000000007'));
  });
  expect(errors.join()).toContain('chain');
});

test('two events that changed view are found by the chain', async () => {
  const errors = await afterwards(async ({ read, write }) => {
    const [second, third] = [await read(2), await read(3)];
    await write(2, third);
    await write(3, second);
  });
  expect(errors.join()).toContain('chain');
});
