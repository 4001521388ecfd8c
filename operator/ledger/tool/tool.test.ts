import { spawn } from 'node:child_process';
import { cp, link, mkdir, readdir, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ClassicLevel } from 'classic-level';
import { beforeEach, describe, expect, test } from 'vitest';
import type { Ledger } from '../ledger.ts';
import { readHead } from '../leveldb/head-file.ts';
import { idKey } from '../leveldb/keys.ts';
import { TEST_WINDOW_MS, TEST_WINDOW_START, testEvent, testWindow } from '../testing/events.ts';
import { useLedgers } from '../testing/use-ledgers.ts';

const used = useLedgers();
const TOOL = join(import.meta.dirname, '..', '..', '..', 'scripts', 'ledger.ts');

interface Ran {
  readonly code: number | null;
  readonly output: string;
  readonly errors: string;
}

async function tool(...args: string[]): Promise<Ran> {
  const child = spawn(process.execPath, [TOOL, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  const { promise: ended, resolve } = Promise.withResolvers<number | null>();
  child.once('close', resolve);
  let errors = '';
  child.stderr.on('data', (chunk) => {
    errors += String(chunk);
  });
  let output = '';
  for await (const chunk of child.stdout) output += String(chunk);
  return { code: await ended, output, errors };
}

let directory: string;
let ledger: Ledger;

beforeEach(async () => {
  directory = await used.directory();
  ledger = await used.open(directory, { segmentLimits: { events: 4, bytes: 1e9 } });
  for (let window = 0; window < 3; window++) {
    await ledger.append({ events: testWindow(TEST_WINDOW_START + window * TEST_WINDOW_MS, 4) });
  }
  await ledger.commitCursor('lago', 9);
});

describe('the ledger tool', () => {
  test('refuses a directory that an operator has open, and a segment in it', async () => {
    for (const path of [directory, join(directory, 'segment-0000000000000001')]) {
      const ran = await tool('verify', path);
      expect(ran.code).toBe(2);
      expect(ran.errors).toContain('a process has this directory open');
    }
    expect(await ledger.read(0, 10)).toMatchObject({ kind: 'page' });
  });

  test('refuses a copy made of hard links, which would destroy the original', async () => {
    await ledger.close();
    const copy = await used.directory();
    for (const segment of ['segment-0000000000000001', 'segment-0000000000000009']) {
      await mkdir(join(copy, segment));
      for (const name of await readdir(join(directory, segment))) {
        await link(join(directory, segment, name), join(copy, segment, name));
      }
    }
    const ran = await tool('verify', copy);
    expect(ran.code).toBe(2);
    expect(ran.errors).toContain('hard link');
    const again = await used.open(directory);
    expect(again.stats().problems).toEqual([]);
  });

  test('shows segments, HEAD and cursors', async () => {
    await ledger.close();
    const segments = (await tool('segments', directory)).output.trim().split('\n');
    expect(segments.map((line) => JSON.parse(line) as unknown)).toMatchObject([
      { name: 'segment-0000000000000001', firstSequence: 1, lastSequence: 4 },
      { firstSequence: 5, lastSequence: 8 },
      { firstSequence: 9, lastSequence: 12, events: 4 },
    ]);
    expect((await tool('head', directory)).output).toContain('"sequence":12');
    const cursors = (await tool('cursors', directory)).output;
    expect(JSON.parse(cursors)).toMatchObject({ destination: 'lago', sequence: 9 });
  });

  test('verifies a copy and compares it with an anchor', async () => {
    const { chain } = ledger.stats();
    await ledger.close();
    const healthy = await tool('verify', directory, '--anchor', `12:${chain}`);
    expect(JSON.parse(healthy.output)).toMatchObject({ ok: true, records: 12, segments: 3, chain });
    expect(healthy.code).toBe(0);
    const other = await tool('verify', directory, '--anchor', `12:${'0'.repeat(64)}`);
    expect(other.output).toContain('anchor');
    expect(other.code).toBe(1);
    const single = await tool('verify', join(directory, 'segment-0000000000000005'));
    expect(JSON.parse(single.output)).toMatchObject({ ok: true, firstSequence: 5, records: 4 });
  });

  test('reports a cut tail, a lost segment and a lost id for deduplication', async () => {
    await ledger.close();
    const damaged = async (damage: (copy: string) => Promise<void>): Promise<string> => {
      const copy = await used.directory();
      await cp(directory, copy, { recursive: true });
      await damage(copy);
      const ran = await tool('verify', copy);
      expect(ran.code).toBe(1);
      return ran.output;
    };
    const cut = await damaged(async (copy) => {
      const active = join(copy, 'segment-0000000000000009');
      const log = (await readdir(active)).find((name) => name.endsWith('.log')) ?? '';
      await truncate(join(active, log), 0);
    });
    expect(cut).toContain('lost');
    const lost = await damaged((copy) =>
      rm(join(copy, 'segment-0000000000000005'), { recursive: true }),
    );
    expect(lost).toContain('events 5 to 8 are missing');
    const forgotten = await damaged(async (copy) => {
      const database = new ClassicLevel<Buffer, Buffer>(join(copy, 'segment-0000000000000001'), {
        keyEncoding: 'buffer',
        valueEncoding: 'buffer',
      });
      const [first] = testWindow(TEST_WINDOW_START, 1);
      await database.del(idKey(first?.id ?? ''));
      await database.close();
    });
    expect(forgotten).toContain('ids for deduplication');
  });

  test('dumps events as they are stored, to the last digit, and sums them exactly', async () => {
    const events = ['0.1', '0.2', '123456789012.123456789'].map((quantity, index) =>
      testEvent({
        tenant: 'sum',
        quantity,
        windowStart: TEST_WINDOW_START + (9 + index) * 3_600_000,
      }),
    );
    await ledger.append({ events });
    await ledger.close();
    const dump = (await tool('dump', directory, '--tenant', 'sum')).output.trim().split('\n');
    expect(dump).toHaveLength(3);
    expect(dump[2]).toContain('"quantity":123456789012.123456789}');
    expect(JSON.parse(dump[0] ?? '')).toMatchObject({ sequence: 13, event: { tenant: 'sum' } });
    expect((await tool('sum', directory, '--tenant', 'sum')).output).toBe(
      '{"tenant":"sum","metric":"tenant_instance_hours","events":3,"quantity":123456789012.423456789}\n',
    );
    expect(
      (await tool('dump', directory, '--from', '2', '--to', '5')).output.split('\n'),
    ).toHaveLength(5);
  });

  test("compares with a destination's export: what it lacks, repeats or has differently", async () => {
    const window = testWindow(TEST_WINDOW_START, 4);
    await ledger.close();
    const [first, second, third] = window;
    const lines = [
      { ...first, quantity: 0.016666667 },
      { data: { ...second, quantity: 0.016666667 } },
      { data: { ...second, quantity: 0.016666667 } },
      { ...third, quantity: 1 },
      { id: 'stranger', quantity: 1 },
    ];
    const file = join(directory, 'received.ndjson');
    await writeFile(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
    const { output } = await tool('diff', directory, '--export', file, '--to', '4');
    const found = output
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { difference?: string });
    expect(found.map(({ difference }) => difference)).toEqual([
      'repeated',
      'differs',
      'missing',
      'unknown',
      undefined,
    ]);
    expect(found.at(-1)).toEqual({ equal: 1, missing: 1, unknown: 1, repeated: 1, differs: 1 });
  });

  test('gives up a damaged segment on request: the remaining events can be read, verified and written to', async () => {
    await ledger.append({ events: [testEvent({ id: 'own', windowStart: TEST_WINDOW_START })] });
    await ledger.close();
    const name = 'segment-0000000000000005';
    const healthy = await tool('accept-damage', directory, '--segment', name);
    expect(healthy).toMatchObject({ code: 2, errors: expect.stringContaining('not damaged') });
    const files = await readdir(join(directory, name));
    const table = files.find((file) => file.endsWith('.ldb')) ?? '';
    await truncate(join(directory, name, table), 40);
    expect((await tool('verify', directory)).code).toBe(1);

    const ran = await tool('accept-damage', directory, '--segment', name);
    expect(JSON.parse(ran.output)).toMatchObject({
      segment: name,
      firstSequence: 5,
      lastSequence: 8,
      horizon: '2026-11-21T09:02:00.000Z',
      undelivered: {},
    });
    expect((await tool('verify', directory)).output).toContain('"ok": true');
    const limits = { events: 4, bytes: 1e9 };
    const after = await used.open(directory, { segmentLimits: limits });
    expect(after.stats()).toMatchObject({ problems: [], horizon: TEST_WINDOW_START + 120_000 });
    const numbers: number[] = [];
    for (let at = 0; at < after.head(); ) {
      const page = await after.read(at, 10);
      if (page.kind === 'failed') throw new Error(page.message);
      numbers.push(...page.events.map(({ sequence }) => sequence));
      at = page.lastSequence;
    }
    expect(numbers).toEqual([1, 2, 3, 4, 9, 10, 11, 12, 13]);
    expect(await after.verify()).toMatchObject({ ok: true, records: 9 });
    const next = testEvent({ id: 'own-2', windowStart: TEST_WINDOW_START + 3_600_000 });
    expect(await after.append({ events: [next] })).toMatchObject({ outcomes: ['accepted'] });
    await after.commitCursor('lago', after.head());
    await after.retain(Date.now() + 366 * 86_400_000);
    expect(after.stats().segments).toBe(1);
  });

  test.each([
    ['lost', (path: string) => rm(path)],
    ['damaged in both slots', (path: string) => writeFile(path, 'x'.repeat(1_024))],
  ])('leaves an intact ledger closed for ever when HEAD is %s', async (_what, harm) => {
    const { chain } = ledger.stats();
    const cursors = ledger.cursors();
    await ledger.close();
    const { epoch, manifest: _, ...lost } = await readHead(directory);
    await harm(join(directory, 'HEAD'));
    await expect(used.open(directory)).rejects.toThrow('HEAD');
    const ran = await tool('rebuild-head', directory, '--anchor', `12:${chain}`);
    expect(ran.errors).toBe('');
    expect(lost).toMatchObject({ sequence: 12, chain });
    const rebuilt = await readHead(directory);
    expect(rebuilt).toEqual({ ...lost, epoch: rebuilt.epoch });
    expect(JSON.parse(ran.output)).toEqual(rebuilt);
    expect(rebuilt.epoch).toBeGreaterThan(epoch);
    expect((await tool('verify', directory)).output).toContain('"ok": true');
    const after = await used.open(directory);
    expect(after.stats()).toMatchObject({ problems: [], sequence: 12, chain });
    expect(after.cursors()).toEqual(cursors);
    const next = testEvent({ id: 'own', windowStart: TEST_WINDOW_START + 3_600_000 });
    expect(await after.append({ events: [next] })).toMatchObject({ head: 13 });
  });

  test('hides a loss by a HEAD that says less than the old one, or than an anchor', async () => {
    const { chain } = ledger.stats();
    await ledger.close();
    const head = join(directory, 'HEAD');
    const readable = await tool('rebuild-head', directory);
    expect(readable).toMatchObject({ code: 2, errors: expect.stringContaining('can be read') });
    await rm(head);
    const segment = 'segment-0000000000000009';
    await rm(join(directory, segment), { recursive: true });
    const lost = await tool('rebuild-head', directory, '--anchor', `12:${chain}`);
    expect(lost.code).toBe(2);
    expect(lost.errors).toContain('the chain does not pass through the anchor at 12');
    expect(await readdir(directory)).not.toContain('HEAD');
  });

  test('takes a damaged ledger for an intact one when HEAD is gone', async () => {
    await ledger.close();
    const name = 'segment-0000000000000005';
    const files = await readdir(join(directory, name));
    const table = files.find((file) => file.endsWith('.ldb')) ?? '';
    await truncate(join(directory, name, table), 40);
    await rm(join(directory, 'HEAD'));
    const ran = await tool('rebuild-head', directory);
    expect(ran.code).toBe(2);
    expect(ran.errors).toMatch(new RegExp(`not intact: .*${name}.*its checksum has changed`));
    expect(await readdir(directory)).not.toContain('HEAD');
  });

  test('writes a HEAD under an operator that runs', async () => {
    await rm(join(directory, 'HEAD'));
    const ran = await tool('rebuild-head', directory);
    expect(ran.errors).toContain('a process has this directory open');
    expect(await readdir(directory)).not.toContain('HEAD');
  });

  test('gives up a segment that is lost whole', async () => {
    await ledger.close();
    const name = 'segment-0000000000000005';
    await rm(join(directory, name), { recursive: true });
    await tool('accept-damage', directory, '--segment', name);
    expect((await tool('verify', directory)).output).toContain('"ok": true');
    const after = await used.open(directory);
    expect(after.stats().problems).toEqual([]);
    await after.commitCursor('lago', after.head());
    await after.retain(Date.now() + 366 * 86_400_000);
    expect(after.stats().segments).toBe(1);
  });

  test('explains itself when it is called wrongly', async () => {
    const incomplete = ['destroy', 'diff', 'accept-damage'].map((command) => [command, directory]);
    for (const args of [[], ['verify'], ...incomplete]) {
      const ran = await tool(...args);
      expect(ran.code).toBe(2);
      expect(ran.errors).toContain('usage: npm run ledger');
    }
    const ran = await tool('dump', directory, '--from', 'yesterday');
    expect(ran.errors).toContain('--from: not a sequence number: "yesterday"');
  });
});
