import { mkdtemp, rm } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Ledger, LedgerReadError } from '../ledger/ledger.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { testEvent } from '../ledger/testing/events.ts';
import { decimalFromNanos } from '../model/decimal.ts';
import { decodeEvent, type UsageEvent } from '../model/event.ts';
import { csvLine } from './csv.ts';
import { API_TOKEN, NOW, startTestServer, type TestServer } from './testing/test-server.ts';
import { UsageSums } from '../billing/usage/usage-sums.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const token = API_TOKEN;

async function ledgerOf(...events: UsageEvent[]): Promise<Ledger> {
  const ledger = createMemoryLedger();
  await ledger.append({ events });
  return ledger;
}

async function get(server: TestServer, path: string) {
  return server.call('GET', path, { token });
}

const early = testEvent({ windowStart: NOW - 2 * HOUR, quantity: '0.000000001', tenant: 'a' });
const late = testEvent({ windowStart: NOW - HOUR, quantity: '123456789.123456789', tenant: 'b' });
const lastMonth = testEvent({ windowStart: Date.UTC(2026, 9, 31, 23), tenant: 'a' });

describe('the export', () => {
  test('is the ledger’s own events, every digit, in order', async () => {
    await using server = await startTestServer({ ledger: await ledgerOf(lastMonth, early, late) });
    const answer = await get(server, '/api/v1/events?from=2026-10-01');
    expect(answer.headers.get('content-type')).toBe('application/x-ndjson');
    const events = answer.text.trimEnd().split('\n').map(decodeEvent);
    expect(events).toStrictEqual([lastMonth, early, late]);
  });

  test('is empty, not an error, when there is nothing', async () => {
    await using server = await startTestServer();
    expect((await get(server, '/api/v1/events')).text).toBe('');
    expect((await get(server, '/api/v1/events?format=csv')).text).toMatch(
      /^id,tenant,.*source\r\n$/,
    );
  });

  test.each([
    ['', [early, late]],
    ['?from=2026-10-31&to=2026-11-01', [lastMonth]],
    [`?from=${encodeURIComponent('2026-11-21T09:05:00+01:00')}`, [late]],
    [`?to=${early.window_start}`, []],
    [`?from=${early.window_start}&to=${late.window_start}`, [early]],
    ['?tenant=b', [late]],
    ['?tenant=b&metric=tenant_gpu_hours', []],
    ['?cluster=tenant-vcluster-a-a', [early, late]],
    ['?cluster=other', []],
    ['?region=eu-central-1&limit=1', [early]],
  ])('of %s is exactly that', async (query, expected) => {
    await using server = await startTestServer({ ledger: await ledgerOf(lastMonth, early, late) });
    const { text } = await get(server, `/api/v1/events${query}`);
    const ids = text
      .split('\n')
      .filter(Boolean)
      .map((line) => decodeEvent(line).id);
    expect(ids).toStrictEqual(expected.map((event) => event.id));
  });

  test('as CSV has a row per event', async () => {
    await using server = await startTestServer({ ledger: await ledgerOf(late) });
    const answer = await get(server, '/api/v1/events?format=csv');
    expect(answer.headers.get('content-disposition')).toBe(
      'attachment; filename=events_2026-11-01_2026-11-21.csv',
    );
    expect(answer.text.split('\r\n')[1]).toBe(
      `${late.id},b,tenant_instance_hours,123456789.123456789,hours,2026-11-21T08:05:00Z,2026-11-21T08:06:00Z,eu-central-1,,,,tenant_class=dev;tenant_cluster=tenant-vcluster-a-a,collector`,
    );
  });

  test('takes no more from the ledger than the client takes from it, and stops when it goes', async () => {
    let read = 0;
    let ended: (() => void) | undefined;
    const over = new Promise<void>((resolve) => {
      ended = resolve;
    });
    const ledger: Ledger = {
      ...createMemoryLedger(),
      async *scan() {
        try {
          for (; read < 10_000_000; read++) yield { sequence: read + 1, event: late };
        } finally {
          ended?.();
        }
      },
    };
    await using server = await startTestServer({ ledger });
    const client = request({
      port: server.port,
      path: '/api/v1/events',
      headers: { authorization: `Bearer ${token}` },
    });
    const firstBytes = new Promise<void>((resolve) => {
      client.on('response', (response) => response.once('readable', () => resolve()));
    });
    client.on('error', () => undefined);
    client.end();
    await firstBytes;
    client.destroy();
    await over;
    expect(read).toBeLessThan(1_000_000);
  });

  test('that breaks in the middle is cut, so that nobody takes a part for the whole', async () => {
    const ledger: Ledger = {
      ...createMemoryLedger(),
      async *scan() {
        for (let sequence = 1; sequence <= 1000; sequence++) yield { sequence, event: late };
        throw new Error('sequence 1001: wrong checksum');
      },
    };
    await using server = await startTestServer({ ledger });
    await expect(get(server, '/api/v1/events')).rejects.toThrow('terminated');
  });

  test('that fails at once is an error, not an empty file', async () => {
    const ledger: Ledger = {
      ...createMemoryLedger(),
      async *scan() {
        const message = 'wrong checksum: segment 1: "sequence 1"';
        yield* await Promise.reject<[]>(
          new LedgerReadError({ kind: 'failed', cause: 'corrupt', message }),
        );
      },
    };
    await using server = await startTestServer({ ledger });
    for (const path of ['/api/v1/events?format=csv', '/api/v1/events', '/api/v1/usage']) {
      const answer = await get(server, path);
      expect(answer.status).toBe(503);
      expect(answer.text).toContain('ledger read failed: wrong checksum');
      expect(answer.headers.has('content-disposition')).toBe(false);
    }
  });
});

describe('sums', () => {
  test('are by tenant, exact to the last digit', async () => {
    const again = testEvent({
      windowStart: NOW - HOUR + MINUTE,
      quantity: '0.000000211',
      tenant: 'b',
    });
    await using server = await startTestServer({ ledger: await ledgerOf(early, late, again) });
    const answer = await get(server, '/api/v1/usage');
    expect(answer.json).toMatchObject({
      from: '2026-11-01T00:00:00.000Z',
      to: '2026-11-21T10:00:00.000Z',
      group_by: ['tenant'],
      events: 3,
      rows: [
        { tenant: 'a', events: 1 },
        { tenant: 'b', unit: 'hours', events: 2 },
      ],
    });
    expect(answer.text).toContain('"quantity":123456789.123457}');
    expect(answer.text).toContain('"quantity":0.000000001}');
  });

  test.each([
    ['tenant,day', [{ tenant: 'a', day: '2026-11-21' }, { tenant: 'b' }]],
    ['hour', [{ hour: '2026-11-21T07:00Z' }, { hour: '2026-11-21T08:00Z' }]],
    ['tenant_class', [{ tenant_class: 'dev', events: 2 }]],
    ['nobody_has_this', [{ nobody_has_this: '', events: 2 }]],
    ['metric,unit', [{ metric: 'tenant_instance_hours', unit: 'hours', events: 2 }]],
    ['source,sku', [{ source: 'collector', sku: '' }]],
  ])('by %s', async (groupBy, rows) => {
    await using server = await startTestServer({ ledger: await ledgerOf(early, late) });
    const { json } = await get(server, `/api/v1/usage?group_by=${groupBy}`);
    expect(json).toMatchObject({ rows });
  });

  test('by a key that nobody has are answered with a warning, and as CSV refused', async () => {
    await using server = await startTestServer({ ledger: await ledgerOf(early, late) });
    const path = '/api/v1/usage?group_by=tenant,tenant_clutser';
    const { json } = await get(server, path);
    expect(json).toMatchObject({
      warnings: [
        'no event of the range has it, and no metric declares it: group_by: "tenant_clutser"',
      ],
    });
    const csv = await get(server, `${path}&format=csv`);
    const error =
      'no event of the range has it, and no metric declares it: group_by: "tenant_clutser": leave it out, or request JSON';
    expect([csv.status, csv.json]).toStrictEqual([400, { error }]);
    for (const known of ['tenant_class', 'gpu_type', 'model', 'zone', 'tenant,sku']) {
      const answer = await get(server, `/api/v1/usage?group_by=${known}`);
      expect(answer.json).not.toHaveProperty('warnings');
    }
  });

  test('of nothing have no rows', async () => {
    await using server = await startTestServer();
    const { json } = await get(server, '/api/v1/usage?tenant=nobody');
    expect(json).toMatchObject({ events: 0, rows: [] });
  });

  test('as CSV name their keys and their range', async () => {
    await using server = await startTestServer({ ledger: await ledgerOf(early) });
    const answer = await get(
      server,
      '/api/v1/usage?format=csv&group_by=tenant,day&from=2026-11-01&to=2026-12-01',
    );
    expect(answer.headers.get('content-disposition')).toContain('usage_2026-11-01_2026-11-21.csv');
    expect(answer.text).toBe(
      'tenant,day,metric,unit,quantity,events\r\na,2026-11-21,tenant_instance_hours,hours,0.000000001,1\r\n',
    );
  });

  test('do not depend on the order of the events, and lose nothing', () => {
    const amounts = fc.array(fc.bigInt({ min: 0n, max: 10n ** 15n }), { maxLength: 50 });
    fc.assert(
      fc.property(amounts, (nanos) => {
        const sums = new UsageSums([], 10);
        for (const amount of nanos) sums.add({ ...early, quantity: decimalFromNanos(amount) });
        const total = decimalFromNanos(nanos.reduce((sum, amount) => sum + amount, 0n));
        expect(sums.rows()[0]?.quantity ?? '0').toBe(total);
      }),
    );
  });

  test('that would need too many rows are refused, not built', () => {
    const sums = new UsageSums(['tenant'], 2);
    const added = ['a', 'b', 'c', 'b'].map((tenant) => sums.add({ ...early, tenant }));
    expect(added).toStrictEqual([true, true, false, true]);
    expect(sums.rows()).toHaveLength(2);
  });

  test('are the same from the sums that are kept, also for what has just arrived', async () => {
    const usageDirectory = await mkdtemp(join(tmpdir(), 'usage-'));
    const ledger = await ledgerOf(lastMonth, early);
    const query = '/api/v1/usage?from=2026-10-01&group_by=tenant,day';
    await using plain = await startTestServer({ ledger });
    await using server = await startTestServer({ ledger, usageDirectory });
    for (const more of [late, testEvent({ windowStart: NOW - MINUTE, tenant: 'c' })]) {
      expect((await get(server, query)).json).toStrictEqual((await get(plain, query)).json);
      await ledger.append({ events: [more] });
    }
    expect((await get(server, query)).json).toMatchObject({ events: 4 });
    await server.close();
    await rm(usageDirectory, { recursive: true });
  });

  test('of a tenant by window, and its events, are the same where it is known where they are', async () => {
    const usageDirectory = await mkdtemp(join(tmpdir(), 'usage-'));
    const ledger = await ledgerOf(lastMonth, early, late);
    const newer = ['a', 'b', 'c'].map((tenant) => testEvent({ windowStart: NOW - HOUR, tenant }));
    await using plain = await startTestServer({ ledger });
    await using server = await startTestServer({ ledger, usageDirectory });
    const range = 'from=2026-11-21T06:30:00Z&tenant=b';
    const paths = [`usage?group_by=window&${range}`, `events?${range}`, `usage?${range}`];
    for (const more of newer) {
      for (const path of paths) {
        const [found, expected] = [
          await get(server, `/api/v1/${path}`),
          await get(plain, `/api/v1/${path}`),
        ];
        expect(found.text).toBe(expected.text);
      }
      await ledger.append({ events: [more] });
    }
    await server.close();
    await rm(usageDirectory, { recursive: true });
  });

  test('say up to when they are while they catch up after a take-over', async () => {
    const usageDirectory = await mkdtemp(join(tmpdir(), 'usage-'));
    const ledger = await ledgerOf(early);
    // Of a long ledger nothing could be summed yet.
    const failed = { kind: 'failed', cause: 'retryable', message: 'not now' } as const;
    const behind: Ledger = {
      ...ledger,
      head: () => ledger.head() + 200_000,
      read: async (after, limit) => (limit > 1 ? failed : ledger.read(after, limit)),
    };
    await using server = await startTestServer({ ledger: behind, usageDirectory });
    const note = `summed up to ${early.window_start}: sums are catching up with the ledger, try again in a minute`;
    for (const path of ['usage', `months/${early.window_start.slice(0, 7)}`]) {
      expect((await get(server, `/api/v1/${path}`)).json).toMatchObject({ note, rows: [] });
    }
    await server.close();
    await rm(usageDirectory, { recursive: true });
  });

  test('say so when part of the range is no longer in the ledger', async () => {
    const ledger = await ledgerOf(early);
    const stats = () => ({ ...ledger.stats(), oldestAt: NOW - HOUR });
    await using server = await startTestServer({ ledger: { ...ledger, stats } });
    const { json } = await get(server, '/api/v1/usage');
    expect(json).toMatchObject({
      note: expect.stringContaining('some of the range is no longer kept'),
    });
  });
});

describe('a spreadsheet', () => {
  test.each([
    ['=1+1', "'=1+1"],
    ['@SUM(A1)', "'@SUM(A1)"],
    ['-2', "'-2"],
    ['+2', "'+2"],
    ['\t=1', "'\t=1"],
    ['=HYPERLINK("http://x","y")', '"\'=HYPERLINK(""http://x"",""y"")"'],
    ['a,b', '"a,b"'],
    ['say "x"', '"say ""x"""'],
    ['two\nlines', '"two\nlines"'],
    ['plain = text', 'plain = text'],
    ['a;=1+1', `"a;'=1+1"`],
    ['a;b=-1;-2', `"a;b=-1;'-2"`],
    ['a; "@SUM(A1)', `"a; ""'@SUM(A1)"`],
    ['two\n=1+1', `"two\n'=1+1"`],
    ['a=1;b=2', 'a=1;b=2'],
  ])('does not run %j', (text, cell) => {
    expect(csvLine([text, 'next'])).toBe(`${cell},next\r\n`);
  });

  test('is given a hostile sku harmlessly', async () => {
    const hostile = testEvent({ windowStart: NOW - HOUR, sku: '=cmd|calc' });
    await using server = await startTestServer({ ledger: await ledgerOf(hostile) });
    const { text } = await get(server, '/api/v1/usage?format=csv&group_by=sku');
    expect(text).toContain("\r\n'=cmd|calc,");
  });

  test('that splits at ";" is given a hostile dimension harmlessly', async () => {
    const hostile = {
      ...testEvent({ windowStart: NOW - HOUR }),
      dimensions: { model: 'x;=cmd|calc', tenant_cluster: 'c' },
    };
    await using server = await startTestServer({ ledger: await ledgerOf(hostile) });
    const { text } = await get(server, '/api/v1/events?format=csv');
    expect(text).toContain(`,"model=x;'=cmd|calc;tenant_cluster=c",`);
  });
});
