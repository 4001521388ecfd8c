import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { type FakeLago, startFakeLago } from '../../e2e/fakes/lago/lago.ts';
import { type Receiver, startReceiver } from '../../e2e/receiver/receiver.ts';
import { Secret } from '../model/secret.ts';
import type { DestinationSettings } from '../settings/settings.ts';
import { createFastClock } from '../delivery/testing/fast-clock.ts';
import { type LiveDelivery, startLiveDelivery } from '../delivery/testing/live-delivery.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { TEST_WINDOW_START, testEvent } from '../ledger/testing/events.ts';
import {
  API_TOKEN as token,
  quietViews,
  startTestServer,
  type TestServer,
} from './testing/test-server.ts';

const DAY = 'from=2026-11-21';
const METRIC = 'tenant_instance_hours';
const PRICES = { differing: 1, examples: ['plan "standard": tenant_instance_hours: no price'] };

interface Row {
  readonly tenant: string;
  readonly metric: string;
  readonly recorded?: number;
  readonly match?: boolean;
}
interface Answer {
  readonly from: string;
  readonly to: string;
  readonly results: readonly {
    readonly destination: string;
    readonly ok: boolean;
    readonly prices?: unknown;
    readonly error?: string;
    readonly rows: readonly Row[];
  }[];
}

/**
 * The whole way: a ledger, the delivery engine, Lago's stand-in, a webhook receiver and the API.
 */
let lago: FakeLago;
let receiver: Receiver;
let live: LiveDelivery;
let server: TestServer;
let directory: string;
const ledger: Ledger = createMemoryLedger();

beforeAll(async () => {
  const clock = createFastClock(TEST_WINDOW_START + 3_600_000);
  directory = await mkdtemp(join(tmpdir(), 'reconcile-'));
  lago = await startFakeLago({ apiKey: 'key', now: () => clock.now() });
  receiver = await startReceiver({ file: join(directory, 'received.ndjson'), port: 0 });
  const common = { suspend: false, startFrom: 'earliest' } as const;
  const destinations: DestinationSettings[] = [
    {
      ...common,
      name: 'billing_c',
      type: 'lago',
      options: { url: lago.url, apiKey: new Secret('key'), planCode: 'standard', currency: 'USD' },
    },
    {
      ...common,
      name: 'hook',
      type: 'webhook',
      options: { url: receiver.url, secrets: [], headers: new Map(), source: 'cp' },
    },
  ];
  const customMetrics = [{ code: 'tokens_used', unit: 'tokens', dimensions: ['model'] }];
  live = await startLiveDelivery({ ledger, clock, destinations, customMetrics });
  await ledger.append({
    events: [
      testEvent({ tenant: 'a', sku: 'small', quantity: '0.000000001' }),
      testEvent({ tenant: 'a', sku: 'large', quantity: '12345.678901234' }),
      testEvent({ tenant: 'b', sku: 'small', quantity: '1' }),
      {
        ...testEvent({ tenant: 'a', id: 'tokens-1', quantity: '1000' }),
        metric: 'tokens_used',
        unit: 'tokens',
        dimensions: { model: 'big' },
      },
    ],
  });
  const allDelivered = (): void => {
    if (ledger.cursors().filter(({ sequence }) => sequence === 4).length < 2)
      throw new Error('lag');
  };
  await vi.waitFor(allDelivered, { timeout: 20_000, interval: 10 });
  server = await startTestServer({
    ledger,
    views: {
      destinations: {
        ...quietViews(() => server.settings).destinations,
        list: () =>
          live.delivery.statuses().map((status) => {
            return status.name === 'hook' ? status : { ...status, prices: PRICES };
          }),
        operations: live.delivery,
      },
    },
  });
});

afterAll(async () => {
  await live.stop();
  await Promise.all([server.close(), lago.close(), receiver.stop()]);
  await rm(directory, { recursive: true });
});

async function reconcile(query: string): Promise<{ status: number; answer: Answer; text: string }> {
  const { status, json, text } = await server.call('GET', `/api/v1/reconcile?${query}`, { token });
  return { status, answer: json as Answer, text };
}

describe('reconciliation', () => {
  test('matches Lago to the ninth decimal, custom metrics included', async () => {
    const { answer, text } = await reconcile(`${DAY}&destination=billing_c`);
    expect(answer).toMatchObject({ from: '2026-11-21T00:00:00Z', to: '2026-11-22T00:00:00Z' });
    const [result] = answer.results;
    expect(result).toMatchObject({ destination: 'billing_c', ok: true });
    expect(result?.rows.map(({ tenant, metric, match }) => [tenant, metric, match])).toEqual([
      ['a', METRIC, true],
      ['a', 'tokens_used', true],
      ['b', METRIC, true],
    ]);
    expect(text).toContain('"expected":12345.678901235,"recorded":12345.678901235,"difference":0');
    expect(text).toContain('"expected":1000,"recorded":1000,"difference":0');
  });

  test('filters choose pairs and do not compare a part with the whole', async () => {
    const { answer, text } = await reconcile(`${DAY}&destination=billing_c&sku=large`);
    expect(answer.results[0]).toMatchObject({
      ok: true,
      rows: [{ tenant: 'a', metric: METRIC, match: true }],
    });
    expect(text).toContain('"ledger":12345.678901235');
  });

  test('finds a billionth that Lago lacks', async () => {
    const { events } = lago.state;
    const [id, lost] =
      [...events].find(([, event]) => JSON.stringify(event).includes('small')) ?? [];
    if (id === undefined || lost === undefined) throw new Error('no event of sku small');
    events.delete(id);
    const { answer, text } = await reconcile(`${DAY}&destination=billing_c&tenant=a`);
    events.set(id, lost);
    expect(answer.results[0]).toMatchObject({ ok: false });
    expect(text).toContain('"difference":-0.000000001');
    expect(text).toContain('"match":false');
  });

  test('compares a receiver that cannot be queried by what it acknowledged', async () => {
    const { answer, text } = await reconcile(`${DAY}&destination=hook`);
    const [hook] = answer.results;
    expect(hook).toMatchObject({ destination: 'hook', ok: true });
    expect(hook?.rows.map(({ tenant, metric, match }) => [tenant, metric, match])).toEqual([
      ['a', METRIC, true],
      ['a', 'tokens_used', true],
      ['b', METRIC, true],
    ]);
    expect(text).toContain(
      '"expected":12345.678901235,"acknowledged":12345.678901235,"difference":0',
    );
    expect(text).not.toContain('recorded');
  });

  test('sums agree, and nobody sees that the amounts cannot', async () => {
    const { answer } = await reconcile(DAY);
    expect(answer.results).toMatchObject([
      { destination: 'billing_c', ok: true, prices: PRICES },
      { destination: 'hook', ok: true },
    ]);
    expect(answer.results[1]).not.toHaveProperty('prices');
  });

  test('is of yesterday unless requested otherwise', async () => {
    const { answer } = await reconcile('');
    expect(answer).toMatchObject({ from: '2026-11-20T00:00:00Z', to: '2026-11-21T00:00:00Z' });
    expect(answer.results.map(({ ok, rows }) => [ok, rows.length])).toEqual([
      [true, 0],
      [true, 0],
    ]);
  });

  test('of a month whose events are deleted compares the sums that are kept, each once', async () => {
    const usageDirectory = join(directory, 'usage');
    const horizon = Date.UTC(2026, 10, 21, 12);
    const gone: Ledger = { ...ledger, stats: () => ({ ...ledger.stats(), horizon }) };
    await using later: TestServer = await startTestServer({
      usageDirectory,
      ledger: gone,
      views: {
        destinations: {
          ...quietViews(() => later.settings).destinations,
          list: () => live.delivery.statuses(),
          operations: live.delivery,
        },
      },
    });
    const month = '/api/v1/reconcile?from=2026-11-01&to=2026-12-01';
    const { json, text } = await later.call('GET', month, { token });
    expect(json).toMatchObject({
      note: expect.stringContaining('every event is kept: 2026-11-22T00:00:00Z'),
      results: [
        { destination: 'billing_c', ok: true, rows: [{ tenant: 'a' }, {}, { tenant: 'b' }] },
        {
          destination: 'hook',
          ok: false,
          error: expect.stringContaining('does not report its sums'),
        },
      ],
    });
    expect(text).toContain('"expected":12345.678901235,"recorded":12345.678901235,"difference":0');
    const some = await later.call('GET', `${month}&destination=billing_c&sku=small&tenant=b`, {
      token,
    });
    expect(some.json).toMatchObject({
      results: [{ ok: true, rows: [{ tenant: 'b', ledger: 1 }] }],
    });
  });

  test.each([
    ['from=2026-11-21T09:00:00Z', 400, 'not the beginning of a UTC day: from'],
    ['from=2026-11-21&to=2026-11-21', 400, 'to must be after from'],
    ['tenent=a', 400, 'unknown query parameter'],
    ['destination=nobody', 404, 'no destination'],
  ])('refuses %s', async (query, status, error) => {
    const outcome = await reconcile(query);
    expect(outcome.status).toBe(status);
    expect(outcome.text).toContain(error);
  });

  test('what matches is on the invoice of its month, a custom metric by its own charge', () => {
    lago.turnTo(Date.UTC(2026, 11, 1, 1));
    const { events, invoices } = lago.account();
    expect(events.map(({ lines }) => lines)).toStrictEqual([1, 1, 1, 1]);
    const lines = invoices.flatMap((invoice) => invoice.lines);
    expect(lines).toContainEqual(expect.objectContaining({ metric: 'tokens_used', units: '1000' }));
  });
});
