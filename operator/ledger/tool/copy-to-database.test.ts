import { spawn } from 'node:child_process';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { LedgerDatabase } from '../../settings/settings.ts';
import type { Ledger } from '../ledger.ts';
import { isLocked } from '../leveldb/failures.ts';
import type { CopyOptions } from '../postgres/begin-copy.ts';
import type { CopyProgress } from '../postgres/stream-copy.ts';
import { inspectStream } from '../postgres/inspect-stream.ts';
import { openPostgresLedger } from '../postgres/open-postgres-ledger.ts';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testEvent, testWindow } from '../testing/events.ts';
import { openTestStream, usePostgres } from '../testing/postgres-ledger.ts';
import { postgresOptions } from '../testing/postgres-options.ts';
import { createSampleLedger, readContent } from '../testing/sample-ledger.ts';
import { createStepClock } from '../testing/step-clock.ts';
import { useLedgers } from '../testing/use-ledgers.ts';
import { acceptDamage } from './accept-damage.ts';
import { copyToDatabase } from './copy-to-database.ts';
import { diffEvents, dumpEvents } from './events.ts';

const used = usePostgres();
const files = useLedgers();
const STREAM = { source: 'berlin', region: 'eu' } as const;
const DAY_MS = 86_400_000;
const WEEK_MS = 7 * DAY_MS;
const KILLS = 8;
/** A million events with LEDGER_COPIED_WINDOWS=50000. */
const WINDOWS = Number(process.env['LEDGER_COPIED_WINDOWS'] ?? 1_000);
const TENANTS = 20;
const GROUP_BATCHES = 20;
// Each test starts a process, which is slow on a busy machine.
const KILL_MS = 30_000 * Math.max(1, WINDOWS / 10_000);

let directory: string;
let database: LedgerDatabase;
const opened: Ledger[] = [];

beforeEach(async () => {
  directory = await files.directory();
  database = await used.server().createDatabase();
});
afterEach(async () => {
  for (const ledger of opened.splice(0)) await ledger.close();
});

function options(change: Partial<CopyOptions> = {}): CopyOptions {
  return { ...STREAM, database, durability: 'storage', startsOver: false, ...change };
}

function copy(change: Partial<CopyOptions> = {}, onProgress?: (progress: CopyProgress) => void) {
  return copyToDatabase(directory, options(change), onProgress);
}

async function openStream(change: Parameters<typeof openTestStream>[1] = {}): Promise<Ledger> {
  const ledger = await openTestStream(database, { ...STREAM, ...change });
  opened.push(ledger);
  return ledger;
}

const windowAt = (index: number) => testWindow(TEST_WINDOW_START + index * TEST_WINDOW_MS, 4);

/** A ledger of this many windows, closed again. */
async function fill(windows: number, segmentEvents = 1_000, tenants = 4): Promise<void> {
  const limits = { events: segmentEvents, bytes: 1e9 };
  const ledger = await files.open(directory, { segmentLimits: limits });
  for (let index = 0; index < windows; index++) {
    const events = testWindow(TEST_WINDOW_START + index * TEST_WINDOW_MS, tenants);
    await ledger.append({ events, records: [{ key: `w${index}`, value: 'v' }] });
  }
  await ledger.commitCursor('lago', Math.floor(ledger.head() / 2));
  await ledger.close();
}

async function streamDump(): Promise<readonly string[]> {
  const inspected = await inspectStream(database, STREAM.source);
  try {
    return await Array.fromAsync(dumpEvents(inspected.view, {}));
  } finally {
    await inspected.close();
  }
}

/** Runs a copy in another process; kills it after so many transactions unless it has ended. */
async function copyInProcess(killAfter?: number): Promise<string | undefined> {
  const script = join(import.meta.dirname, '..', 'testing', 'copy-process.ts');
  const place = [directory, String(database.port), database.name, STREAM.source, STREAM.region];
  const child = spawn(process.execPath, [script, ...place], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise((resolve) => child.once('close', resolve));
  let transactions = 0;
  let last: string | undefined;
  for await (const line of createInterface({ input: child.stdout })) {
    transactions += 1;
    last = line;
    if (transactions === killAfter) child.kill('SIGKILL');
  }
  await ended;
  return last;
}

describe('a ledger that is copied into a database', () => {
  test('has the same events, numbers, chain, records, cursors and last window there', async () => {
    const content = await createSampleLedger(directory);
    const report = await copy();
    expect(report).toMatchObject({ kind: 'copied', lastSequence: 400, records: 13, cursors: 2 });
    const ledger = await openStream();
    expect(await readContent(ledger)).toEqual(content);
    expect(report).toMatchObject(pick(ledger));
    expect((await ledger.verify()).errors).toEqual([]);
    expect(ledger.stats().problems).toEqual([]);
    // An operator that measures the last window again stores nothing.
    const window = testWindow(TEST_WINDOW_START, 10);
    expect(await ledger.append({ events: window })).toMatchObject({
      head: 400,
      outcomes: window.map(() => 'duplicate'),
    });
    expect(await ledger.append({ events: [testEvent({ id: 'new' })] })).toMatchObject({
      head: 401,
    });
  });

  test(
    `is equal although the copy was killed ${KILLS} times on the way`,
    async () => {
      await fill(WINDOWS, WINDOWS * 7, TENANTS);
      for (let kill = 0; kill < KILLS; kill++) {
        const last = await copyInProcess(1 + ((kill * 7) % 5));
        expect(last).not.toBe('copied');
      }
      // Again when every event is copied, but not the records, the cursors or the comparison.
      const inStream = (await streamDump()).length / TENANTS;
      await copyInProcess((WINDOWS - inStream) / GROUP_BATCHES);
      expect(await copyInProcess()).toMatch(/^(?:copied|finished)$/);

      const dump = await Array.fromAsync(dumpEvents(directory, {}));
      expect(dump).toHaveLength(WINDOWS * TENANTS);
      expect(await streamDump()).toEqual(dump);
      const exported = join(directory, 'export');
      await writeFile(exported, dump.map((line) => /"event":(.*)\}$/.exec(line)?.[1]).join('\n'));
      const inspected = await inspectStream(database, STREAM.source);
      expect(await Array.fromAsync(diffEvents(inspected.view, exported, {}))).toEqual([
        `{"equal":${WINDOWS * TENANTS},"missing":0,"unknown":0,"repeated":0,"differs":0}`,
      ]);
      await inspected.close();
      const ledger = await openStream();
      expect(ledger.cursors()).toMatchObject([
        { destination: 'lago', sequence: (WINDOWS * TENANTS) / 2 },
      ]);
      expect(await Array.fromAsync(ledger.records('w'))).toHaveLength(WINDOWS);
      expect((await ledger.verify()).errors).toEqual([]);
    },
    KILL_MS * (KILLS + 3),
  );

  test('keeps what retention has deleted deleted, and the horizon', async () => {
    const clock = createStepClock(TEST_WINDOW_START);
    const source = await files.open(directory, { clock, retentionMs: DAY_MS });
    for (let week = 0; week < 4; week++) {
      await source.append({ events: testWindow(clock.now(), 5) });
      clock.pass(WEEK_MS);
    }
    await source.commitCursor('lago', 12);
    await source.retain(clock.now());
    expect(source.lowWater()).toBe(10);
    const { horizon, chain } = source.stats();
    await source.close();
    expect(await copy()).toMatchObject({ kind: 'copied', firstSequence: 11, lastSequence: 20 });
    const ledger = await openStream({ clock, retentionMs: DAY_MS });
    expect(ledger.lowWater()).toBe(10);
    expect(ledger.stats()).toMatchObject({ horizon, chain, problems: [] });
    // The weeks are those of the original appends, and are deleted in order.
    await ledger.commitCursor('lago', 15);
    await ledger.retain(clock.now());
    expect(ledger.lowWater()).toBe(15);
    expect((await ledger.verify()).errors).toEqual([]);
  });

  test('without a segment that was given up has the same numbers and the same end of the chain', async () => {
    await fill(3, 4);
    await rm(join(directory, 'segment-0000000000000005'), { recursive: true });
    await expect(copy()).rejects.toThrow('segment-0000000000000005');
    await acceptDamage(directory, 'segment-0000000000000005');
    expect(await copy()).toMatchObject({ kind: 'copied', lastSequence: 12 });
    const ledger = await openStream();
    expect(ledger.stats().problems).toEqual(['ledger: events 5 to 8: missing']);
    expect(await streamDump()).toEqual(await Array.fromAsync(dumpEvents(directory, { from: 1 })));
    expect(await ledger.append({ events: windowAt(7) })).toMatchObject({ head: 16 });
  });
});

describe('a copy that is not finished', () => {
  const stop = () => {
    throw new Error('stopped');
  };

  test('is refused to operators', async () => {
    await fill(6);
    await expect(copy({}, stop)).rejects.toThrow('stopped');
    expect(await openPostgresLedger(postgresOptions(database, STREAM))).toMatchObject({
      kind: 'failed',
      cause: 'invalid',
      message: expect.stringMatching(/not complete.*migrate/),
    });
    expect(await copy()).toMatchObject({ kind: 'copied', lastSequence: 24 });
    expect(await copy()).toMatchObject({ kind: 'finished' });
    const ledger = await openStream();
    expect((await ledger.verify()).errors).toEqual([]);
  });

  test('goes on with what an operator has added on the volume meanwhile', async () => {
    await fill(4);
    await expect(copy({}, stop)).rejects.toThrow('stopped');
    const source = await files.open(directory);
    await source.append({ events: windowAt(9), records: [{ key: 'w0', value: undefined }] });
    await source.commitCursor('lago', 20);
    await source.close();
    expect(await copy()).toMatchObject({ kind: 'copied', lastSequence: 20, records: 3 });
    const ledger = await openStream();
    expect(await ledger.record('w0')).toBeUndefined();
    expect(ledger.cursors()).toMatchObject([{ destination: 'lago', sequence: 20 }]);
  });

  test('of another ledger starts again only on request', async () => {
    await fill(3);
    await expect(copy({}, stop)).rejects.toThrow('stopped');
    directory = await files.directory();
    await fill(5);
    await expect(copy()).rejects.toThrow('--start-over');
    expect(await copy({ startsOver: true })).toMatchObject({ kind: 'copied', lastSequence: 20 });
    expect(await streamDump()).toHaveLength(20);
  });
});

describe('a copy is refused', () => {
  test('into a stream with events of its own', async () => {
    await fill(1);
    const ledger = await openStream();
    await ledger.append({ events: windowAt(0) });
    await expect(copy()).rejects.toThrow('events of its own');
    await expect(copy({ startsOver: true })).rejects.toThrow('events of its own');
    expect(ledger.head()).toBe(4);
    expect(await ledger.append({ events: windowAt(1) })).toMatchObject({ head: 8 });
  });

  test('from a directory that an operator has open, or that is none', async () => {
    const source = await files.open(directory);
    await source.append({ events: windowAt(0) });
    await expect(copy()).rejects.toSatisfy(isLocked);
    await source.close();
    await expect(
      copyToDatabase(join(directory, 'segment-0000000000000001'), options()),
    ).rejects.toThrow('not the directory of a ledger');
  });

  test('when a record cannot be held by PostgreSQL, and names it', async () => {
    const source = await files.open(directory);
    await source.append({ events: windowAt(0), records: [{ key: 'odd', value: 'a\0b' }] });
    await source.close();
    await expect(copy()).rejects.toThrow('"odd"');
  });
});

function pick(ledger: Ledger) {
  const { ledgerId, chain } = ledger.stats();
  return { ledgerId, chain };
}
