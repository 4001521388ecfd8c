import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { testEvent } from '../ledger/testing/events.ts';
import type { UsageEvent } from '../model/event.ts';
import {
  API_TOKEN,
  INGEST_TOKEN,
  NOW,
  quietViews,
  startTestServer,
  type TestServer,
} from './testing/test-server.ts';
import type { DestinationOperations, DestinationStatusView } from './views.ts';

const HOUR = 3_600_000;
const WHO = { reason: 'pushed twice', author: 'ann@example.com' };
const mistaken = testEvent({
  id: 'e-1',
  tenant: 'a',
  windowStart: NOW - HOUR,
  quantity: '5.000000001',
});
const other = testEvent({ id: 'e-2', tenant: 'a', windowStart: NOW - HOUR, quantity: '1' });

const WELL: Omit<DestinationStatusView, 'name'> = {
  type: 'webhook',
  ready: true,
  suspended: false,
  bootstrapped: true,
  cursor: 2,
  lagEvents: 0,
  lagSeconds: 0,
  delivered: 2,
  skipped: 0,
  deadLetters: 0,
  parked: 0,
  parkedTenants: [],
  offboarding: 0,
  planChanges: [],
  unknownMetrics: [],
  unpriced: [],
  lateRefusals: [],
  consecutiveFailures: 0,
};

async function start(usageDirectory?: string): Promise<TestServer> {
  const ledger = createMemoryLedger();
  await ledger.append({ events: [other, mistaken] });
  return startTestServer({ ledger, usageDirectory });
}

const correct = (server: TestServer, body: unknown, id = 'e-1', token = API_TOKEN) =>
  server.call('POST', `/api/v1/events/${id}/corrections`, { token, body });

async function sum(server: TestServer): Promise<unknown> {
  const query = '/api/v1/usage?from=2026-11-21&to=2026-11-22&group_by=tenant';
  const { json } = await server.call('GET', query, { token: API_TOKEN });
  return (json as { rows: readonly { quantity: number }[] }).rows.map(({ quantity }) => quantity);
}

async function events(server: TestServer): Promise<readonly UsageEvent[]> {
  const page = await server.ledger.read(0, 100);
  if (page.kind === 'failed') throw new Error(page.message);
  return page.events.map(({ event }) => event);
}

test('a mistaken event is undone by an event of its own, with who and why, to the last digit', async () => {
  await using server = await start();
  const answer = await correct(server, { quantity: 0, ...WHO });
  expect(answer.text).toMatch(
    /^\{"corrects":"e-1","id":"cor1_[0-9a-f]{32}_1","before":5.000000001,"after":0,"difference":-5.000000001\}\n$/,
  );
  const [, , correction] = await events(server);
  expect(correction).toStrictEqual({
    ...mistaken,
    id: (answer.json as { id: string }).id,
    recorded_at: '2026-11-21T09:05:00.000Z',
    quantity: '-5.000000001',
    source: 'correction',
    properties: { corrects: 'e-1', corrects_sequence: 2, ...WHO },
  });
  expect(await sum(server)).toStrictEqual([1]);
  expect(server.log.join()).toContain('an operator corrected an event');
  const explained = await server.call(
    'GET',
    `/api/v1/events/${(answer.json as { id: string }).id}/explain`,
    { token: API_TOKEN },
  );
  expect(explained.text).toContain('corrected event');
  const exported = await server.call('GET', '/api/v1/events', { token: API_TOKEN });
  expect(exported.text).toContain('"quantity":-5.000000001}');
});

test('a correction that is sent twice counts once, and one that is corrected again adds up', async () => {
  await using server = await start();
  const replace = { quantity: 3, ...WHO };
  const answers = await Promise.all([correct(server, replace), correct(server, replace)]);
  expect(
    answers
      .map(({ json }) => (json as { difference: number }).difference)
      .toSorted((a, b) => a - b),
  ).toEqual([-2.000000001, 0]);
  await correct(server, { quantity: 7.5, ...WHO });
  await correct(server, { quantity: 4, ...WHO });
  expect(await sum(server)).toStrictEqual([5]);
  const { json } = await correct(server, { quantity: 4, ...WHO });
  expect(json).toStrictEqual({ corrects: 'e-1', before: 4, after: 4, difference: 0 });
  expect(await events(server)).toHaveLength(5);
});

test('the sums that are kept on disk have it too, below zero if need be', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'meterfeed-corrections-'));
  try {
    await using server = await start(directory);
    await expect.poll(() => sum(server)).toStrictEqual([6.000000001]);
    await correct(server, { quantity: 0, ...WHO });
    await expect.poll(() => sum(server)).toStrictEqual([1]);
    const query = '/api/v1/usage?from=2026-11-21&to=2026-11-22&group_by=source';
    const { text } = await server.call('GET', query, { token: API_TOKEN });
    expect(text).toContain('"source":"correction"');
    expect(text).toContain('"quantity":-5.000000001');
  } finally {
    await rm(directory, { recursive: true });
  }
});

test('what cannot be corrected is refused with what to do instead', async () => {
  await using server = await start();
  const { json } = await correct(server, { quantity: 0, ...WHO });
  const { id } = json as { id: string };
  const refusals = [
    [{ quantity: 0, ...WHO }, id, 409, 'a correction itself'],
    [{ quantity: 0, ...WHO }, 'e-9', 404, 'no such event, or no longer kept'],
    [{ quantity: -1, ...WHO }, 'e-1', 400, 'not a number of at least 0'],
    [{ quantity: '1', ...WHO }, 'e-1', 400, 'not a number of at least 0'],
    [{ quantity: 1e-10, ...WHO }, 'e-1', 400, 'at most nine decimals'],
    [{ quantity: 1e16, ...WHO }, 'e-1', 400, 'not a number'],
    [{ quantity: 1, author: 'ann' }, 'e-1', 400, 'reason'],
    [{ quantity: 1, reason: 'why', author: 'a\nb' }, 'e-1', 400, 'author'],
    [[1], 'e-1', 400, 'not an object'],
  ] as const;
  for (const [body, which, status, text] of refusals) {
    const answer = await correct(server, body, which);
    expect([answer.status, answer.text]).toStrictEqual([status, expect.stringContaining(text)]);
  }
  expect((await correct(server, { quantity: 0, ...WHO }, 'e-1', INGEST_TOKEN)).status).toBe(403);
  expect(await events(server)).toHaveLength(3);
});

test('what an event counts as, who corrected it and where that would go can be queried before', async () => {
  const ledger = createMemoryLedger();
  await ledger.append({ events: [other, mistaken] });
  const { destinations } = quietViews(() => server.settings);
  const list = () => ['well', 'gone'].map((name) => ({ ...WELL, name }));
  const correctionPrediction: DestinationOperations['predictCorrection'] = async (
    name,
    { sequence },
  ) =>
    name === 'well' && sequence === 2 ? { state: 'delivered', takesNegative: false } : undefined;
  await using server: TestServer = await startTestServer({
    ledger,
    views: {
      destinations: {
        ...destinations,
        list,
        operations: { ...destinations.operations, predictCorrection: correctionPrediction },
      },
    },
  });
  const get = (id: string, token?: string) =>
    server.call('GET', `/api/v1/events/${id}/corrections`, { ...(token && { token }) });
  expect((await get('e-1', API_TOKEN)).json).toMatchObject({
    event: { id: 'e-1' },
    corrections: [],
    counts_as: 5.000000001,
    destinations: [{ name: 'well', state: 'delivered', takes_negative: false }],
  });
  await correct(server, { quantity: 3, ...WHO });
  const { json, text } = await get('e-1', API_TOKEN);
  expect(json).toMatchObject({ counts_as: 3, corrections: [{ properties: WHO }] });
  expect(text).toContain('"quantity":-2.000000001');
  expect(json).not.toHaveProperty('refused');
  const [{ id }] = (json as { corrections: [{ id: string }] }).corrections;
  const itself = await get(id, API_TOKEN);
  expect(itself.json).toMatchObject({ refused: expect.stringContaining('once more') });
  expect((await get('e-9', API_TOKEN)).status).toBe(404);
  expect((await get('e-1')).status).toBe(401);
});

test('where nothing can be changed the answer says so before somebody fills in a form', async () => {
  const ledger = createMemoryLedger();
  await ledger.append({ events: [mistaken] });
  await using server = await startTestServer({ ledger, environment: { API_TOKEN: '' } });
  const { json } = await server.call('GET', '/api/v1/events/e-1/corrections');
  expect(json).toMatchObject({ refused: expect.stringContaining('API_TOKEN') });
});

test('nobody pushes a correction: its ids, its source and quantities below zero are refused', async () => {
  await using server = await start();
  const event = {
    tenant: 'a',
    metric: 'tokens_used',
    quantity: 1,
    source: 'correction',
    properties: { corrects: 'e-1', corrects_sequence: 2 },
    window_start: '2026-11-21T09:00:00Z',
    window_end: '2026-11-21T09:01:00Z',
  };
  const push = (body: unknown) =>
    server.call('POST', '/api/v1/events', { token: INGEST_TOKEN, body });
  const { json } = await push({ ...event, id: 'cor1_00000000000000000000000000000000_1' });
  expect(json).toMatchObject({
    rejected: [{ error: expect.stringContaining('reserved for corrections') }],
  });
  expect((await push({ ...event, quantity: -1 })).status).toBe(400);
  await push(event);
  expect((await events(server)).at(-1)?.source).toBe('ingest:api');
});
