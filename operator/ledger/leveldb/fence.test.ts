import { spawn } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { testWindow, TEST_WINDOW_MS, TEST_WINDOW_START } from '../testing/events.ts';
import { testOptions } from '../testing/level-ledger.ts';
import { useLedgers } from '../testing/use-ledgers.ts';
import { openLevelLedger } from './open-level-ledger.ts';

const used = useLedgers();
const windowAt = (index: number) => testWindow(TEST_WINDOW_START + index * TEST_WINDOW_MS, 5);

/** Opens the directory in another process, appends one window and returns the output. */
async function openElsewhere(directory: string): Promise<string> {
  const script = join(import.meta.dirname, '..', 'testing', 'second-instance.ts');
  const child = spawn(process.execPath, [script, directory], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  for await (const chunk of child.stdout) text += String(chunk);
  return text.trim();
}

describe('a second instance', () => {
  test('on the same directory is refused, and the first goes on', async () => {
    const directory = await used.directory();
    const ledger = await used.open(directory);
    await ledger.append({ events: windowAt(0) });
    expect(await openElsewhere(directory)).toMatch(/^fenced/);
    expect(await openLevelLedger(testOptions(directory))).toMatchObject({ cause: 'fenced' });
    expect(await ledger.append({ events: windowAt(1) })).toMatchObject({ head: 10 });
  });

  test('that gets in because the lock was deleted stops the first one for good, and nothing acknowledged is lost', async () => {
    const directory = await used.directory();
    const ledger = await used.open(directory);
    await ledger.append({ events: windowAt(0) });
    await rm(join(directory, 'segment-0000000000000001', 'LOCK'));
    expect(await openElsewhere(directory)).toBe('appended 10');
    const refused = { kind: 'failed', cause: 'fenced' };
    expect(await ledger.append({ events: windowAt(2) })).toMatchObject(refused);
    expect(await ledger.commitCursor('lago', 1)).toMatchObject(refused);
    await ledger.close();

    const later = await used.open(directory);
    expect(later.head()).toBe(10);
    expect(later.stats().problems).toEqual([]);
    expect((await later.verify()).errors).toEqual([]);
  });
});
