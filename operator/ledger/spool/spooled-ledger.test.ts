import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Logger } from '../../telemetry/logger.ts';
import type { AppendBatch, Ledger, RecordChange } from '../ledger.ts';
import { METER_STATE_KEY } from '../meter-ledger.ts';
import { type AwayLedger, createAwayLedger, type Presence } from '../testing/away-ledger.ts';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testWindow } from '../testing/events.ts';
import { silentLogger } from '../testing/level-ledger.ts';
import { beginSpooled, drain } from '../testing/spooled-ledger.ts';
import { useLedgers } from '../testing/use-ledgers.ts';
import type { SpooledLedger } from './spooled-ledger.ts';

const used = useLedgers();

/** The batch of a window, with the records that go with it. */
function windowBatch(window: number, records: readonly RecordChange[] = []): AppendBatch {
  const windowStart = TEST_WINDOW_START + window * TEST_WINDOW_MS;
  return {
    events: testWindow(windowStart, 1 + (window % 3)),
    records: [{ key: METER_STATE_KEY, value: `closed ${window}` }, ...records],
    windowEnd: windowStart + TEST_WINDOW_MS,
  };
}

async function contentOf(ledger: Ledger) {
  const page = await ledger.read(0, 100_000);
  if (page.kind === 'failed') throw new Error(page.message);
  return {
    ids: page.events.map(({ event }) => event.id),
    records: await Array.fromAsync(ledger.records('')),
    lastWindowEnd: ledger.stats().lastWindowEnd,
  };
}

async function write(spooled: SpooledLedger, batch: AppendBatch): Promise<void> {
  const outcome = await spooled.append(batch);
  if (outcome.kind === 'failed') throw new Error(outcome.message);
}

/** Keeps its errors and warnings. */
function recording(texts: string[]): Logger {
  const keep = (text: string): void => void texts.push(text);
  return { ...silentLogger, warn: keep, error: keep };
}

type Step =
  | { readonly kind: 'window'; readonly keys: readonly number[] }
  | { readonly kind: 'records'; readonly keys: readonly number[] }
  | { readonly kind: 'presence'; readonly presence: Presence }
  | { readonly kind: 'drain' }
  | { readonly kind: 'kill' }
  | { readonly kind: 'kill while draining'; readonly presence: Presence };

const keys = fc.array(fc.integer({ min: 0, max: 5 }), { maxLength: 3 });
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('window' as const), keys }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('records' as const), keys }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('presence' as const),
      presence: fc.constantFrom<Presence>('there', 'away', 'answers lost'),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: 'drain' as const }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'kill' as const }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('kill while draining' as const),
      presence: fc.constantFrom<Presence>('silent', 'deaf'),
    }),
  },
);

const stepList = fc.array(step, { minLength: 10, maxLength: 25, size: 'max' });

describe('what is acknowledged while the database is away', () => {
  test('comes into it once and in order, whichever answers are lost and whenever the process is killed', async () => {
    await fc.assert(
      fc.asyncProperty(stepList, async (steps) => {
        const dataDir = await used.directory();
        const away = createAwayLedger();
        const plain = createAwayLedger();
        let spooled = await beginSpooled({ ledger: away, dataDir });
        let number = 0;
        const both = async (batch: AppendBatch): Promise<void> => {
          await plain.append(batch);
          await write(spooled, batch);
        };
        const changes = (chosen: readonly number[]): RecordChange[] =>
          chosen.map((key, index) => ({
            key: `gaps/${key}`,
            value: index === 1 ? undefined : `${number}`,
          }));
        const restart = async (): Promise<void> => {
          await spooled.close();
          away.presence = 'there';
          spooled = await beginSpooled({ ledger: away, dataDir });
        };
        for (const each of steps) {
          number += 1;
          if (each.kind === 'window') await both(windowBatch(number, changes(each.keys)));
          if (each.kind === 'records') await both({ events: [], records: changes(each.keys) });
          if (each.kind === 'presence') away.presence = each.presence;
          if (each.kind === 'kill') await restart();
          if (each.kind === 'kill while draining' && !spooled.spooling.isEmpty()) {
            away.presence = each.presence;
            const hung = away.hangs();
            void spooled.run(new AbortController().signal);
            await hung;
            await restart();
          }
          if (each.kind === 'drain' && away.presence === 'there') await drain(spooled);
          if (away.presence !== 'there') continue;
          // Whoever reads through it sees what was acknowledged, wherever that is by now.
          expect(await Array.fromAsync(spooled.records(''))).toEqual(
            await Array.fromAsync(plain.records('')),
          );
          expect(spooled.stats().lastWindowEnd).toBe(plain.stats().lastWindowEnd);
        }
        await restart();
        await drain(spooled);
        expect(await contentOf(away)).toEqual(await contentOf(plain));
        expect(away.stats().conflicts).toBe(0);
        await spooled.close();
        expect(await readdir(dataDir)).toEqual([]);
      }),
      { numRuns: Number(process.env['SPOOL_RUNS'] ?? 25) },
    );
  }, 120_000);

  test('is written directly again once it has followed', async () => {
    const away = createAwayLedger();
    const spooled = await beginSpooled({ ledger: away, dataDir: await used.directory() });
    await write(spooled, windowBatch(1));
    away.presence = 'away';
    await write(spooled, windowBatch(2));
    expect(spooled.spooling.isEmpty()).toBe(false);
    away.presence = 'there';
    await write(spooled, windowBatch(3));
    // Not past the one that waits.
    expect(await away.record(METER_STATE_KEY)).toBe('closed 1');
    await drain(spooled);
    expect(spooled.spooling.drainedTo()).toBe(away.head());
    await write(spooled, windowBatch(4));
    expect(await away.record(METER_STATE_KEY)).toBe('closed 4');
    expect(spooled.waiting().batches).toBe(0);
    await spooled.close();
  });

  test('has no more room than LEDGER_SPOOL_SIZE: then it is refused as without a spool, and none of it is lost', async () => {
    const away = createAwayLedger();
    const said: string[] = [];
    const spooled = await beginSpooled({
      ledger: away,
      dataDir: await used.directory(),
      limitBytes: 3_000,
      logger: recording(said),
    });
    away.presence = 'away';
    let window = 1;
    let outcome = await spooled.append(windowBatch(window));
    while (outcome.kind === 'appended') outcome = await spooled.append(windowBatch(++window));
    expect(window).toBeGreaterThan(2);
    expect(outcome).toMatchObject({
      cause: 'full',
      message: expect.stringMatching(/LEDGER_SPOOL_SIZE: "3000"; windows wait/),
    });
    expect(await spooled.append(windowBatch(window))).toMatchObject({ cause: 'full' });
    expect(said.filter((text) => text.includes('no room'))).toHaveLength(1);
    away.presence = 'there';
    await drain(spooled);
    await write(spooled, windowBatch(window));
    expect(away.stats().lastWindowEnd).toBe(windowBatch(window).windowEnd);
    await spooled.close();
  });

  test('waits for the database where LEDGER_SPOOL_SIZE is 0', async () => {
    const away = createAwayLedger();
    const dataDir = await used.directory();
    const spooled = await beginSpooled({ ledger: away, dataDir, limitBytes: 0 });
    away.presence = 'away';
    expect(await spooled.append(windowBatch(1))).toMatchObject({ cause: 'retryable' });
    expect(await readdir(dataDir)).toEqual([]);
    await spooled.close();
  });

  test('waits for the database where no spool can be made', async () => {
    const away = createAwayLedger();
    const said: string[] = [];
    const dataDir = await used.directory();
    const spooled = await beginSpooled({ ledger: away, dataDir, logger: recording(said) });
    await writeFile(join(dataDir, 'spool'), 'not a directory');
    away.presence = 'away';
    expect(await spooled.append(windowBatch(1))).toMatchObject({ cause: 'retryable' });
    expect(said.join()).toContain('the spool cannot be made');
    away.presence = 'there';
    await write(spooled, windowBatch(1));
    await spooled.close();
  });

  test('ends the process where another one has become the meter', async () => {
    const away = createAwayLedger();
    const spooled = await beginSpooled({ ledger: away, dataDir: await used.directory() });
    away.presence = 'away';
    await write(spooled, windowBatch(1));
    const fenced = { kind: 'failed', cause: 'fenced', message: 'ledger: another process' } as const;
    Object.assign(away, { append: async () => fenced });
    await expect(spooled.run(AbortSignal.timeout(10_000))).rejects.toThrow('another process');
    expect(await spooled.append(windowBatch(2))).toEqual(fenced);
    await spooled.close();
  });
});

describe('a spool that a process has left', () => {
  async function leave(away: AwayLedger, dataDir: string): Promise<void> {
    const spooled = await beginSpooled({ ledger: away, dataDir });
    away.presence = 'there';
    await write(spooled, windowBatch(1));
    away.presence = 'away';
    await write(spooled, windowBatch(2));
    await write(spooled, windowBatch(3));
    await spooled.close();
    away.presence = 'there';
  }

  test('is put aside when another meter has measured the windows since: its own stay, and its journal', async () => {
    const away = createAwayLedger();
    const dataDir = await used.directory();
    await leave(away, dataDir);
    await away.append(windowBatch(2, [{ key: METER_STATE_KEY, value: 'closed 2, by another' }]));
    const before = await contentOf(away);
    const said: string[] = [];
    const spooled = await beginSpooled({ ledger: away, dataDir, logger: recording(said) });
    expect(said).toEqual([expect.stringContaining('a spool is put aside')]);
    expect(spooled.waiting().batches).toBe(0);
    expect(await contentOf(away)).toEqual(before);
    const [aside = ''] = await readdir(dataDir);
    expect(aside).toMatch(/^spool-aside-/);
    const kept = await used.open(join(dataDir, aside));
    expect(kept.head()).toBe(windowBatch(2).events.length + windowBatch(3).events.length);
    await write(spooled, windowBatch(3));
    await spooled.close();
  });

  test('is put aside when the database went back to a state from before', async () => {
    const away = createAwayLedger();
    const dataDir = await used.directory();
    await leave(away, dataDir);
    const restored = createAwayLedger();
    await restored.append(windowBatch(0));
    const spooled = await beginSpooled({ ledger: restored, dataDir });
    expect(spooled.waiting().batches).toBe(0);
    expect(restored.head()).toBe(windowBatch(0).events.length);
    await spooled.close();
  });

  test('is not written into the ledger of another cluster, and stays', async () => {
    const dataDir = await used.directory();
    await leave(createAwayLedger(), dataDir);
    const memory = createAwayLedger();
    const stats = () => ({ ...memory.stats(), ledgerId: 'another' });
    await expect(beginSpooled({ ledger: { ...memory, stats }, dataDir })).rejects.toThrow(
      /the spool is that of another ledger: .*spool: "memory"; name its database/,
    );
    expect(await readdir(dataDir)).toEqual(['spool']);
  });

  test('keeps the process from starting where it is damaged, so that nothing of it is passed over', async () => {
    const away = createAwayLedger();
    const dataDir = await used.directory();
    await leave(away, dataDir);
    await rm(join(dataDir, 'spool', 'IDENTITY'));
    await expect(beginSpooled({ ledger: away, dataDir })).rejects.toThrow(/IDENTITY: missing/);
  });

  test('is deleted when nothing ever came into it, and what a kill has left of a drained one with it', async () => {
    const dataDir = await used.directory();
    await (await used.open(join(dataDir, 'spool'))).close();
    await mkdir(join(dataDir, 'spool-drained'));
    const spooled = await beginSpooled({ ledger: createAwayLedger(), dataDir });
    expect(await readdir(dataDir)).toEqual([]);
    await spooled.close();
  });
});
