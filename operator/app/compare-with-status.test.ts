import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Connection } from '../kubernetes/connection.ts';
import { createCapturingLogger } from '../kubernetes/testing/capturing-logger.ts';
import { plainKubeConfig } from '../kubernetes/testing/scripted-api-server.ts';
import { ledgerFailure } from '../ledger/failures.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { TEST_WINDOW_START, testWindow } from '../ledger/testing/events.ts';
import { createStepClock } from '../ledger/testing/step-clock.ts';
import { useLedgers } from '../ledger/testing/use-ledgers.ts';
import { type Comparing, compareWithStatus } from './compare-with-status.ts';

interface Answer {
  readonly code: number;
  readonly body: unknown;
}

const used = useLedgers();
const never = new AbortController().signal;
let server: Server;
let connection: Connection;
/** The last one is given again and again. */
let answers: Answer[];
let requested: string[];

beforeEach(async () => {
  answers = [];
  requested = [];
  server = createServer((request, response) => {
    requested.push(request.url ?? '');
    const { code, body } = (answers.length > 1 ? answers.shift() : answers[0]) ?? EMPTY;
    response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  connection = new Connection(plainKubeConfig(`http://127.0.0.1:${port}`));
});
afterEach(async () => {
  await connection.close();
  server.close();
});

const EMPTY: Answer = { code: 200, body: { items: [] } };

function policyWith(ledger: unknown): Answer {
  return { code: 200, body: { items: [{ metadata: { name: 'default' }, status: { ledger } }] } };
}

function comparing(ledger: Comparing['ledger']) {
  const logger = createCapturingLogger();
  return { connection, ledger, clock: createStepClock(TEST_WINDOW_START), logger };
}

async function filled(): Promise<Ledger> {
  const ledger = await used.open(await used.directory());
  await ledger.append({ events: testWindow(TEST_WINDOW_START, 4) });
  return ledger;
}

describe('before anything is written', () => {
  test('a restored ledger is held against the status, and gives no number twice', async () => {
    const ledger = await filled();
    const { ledgerId, chain } = ledger.stats();
    answers = [policyWith({ id: ledgerId, sequence: 10, bytes: 1, segments: 1, chain })];
    await compareWithStatus(comparing(ledger), never);
    expect(requested).toEqual([expect.stringContaining('metadata.name%3Ddefault')]);
    expect(ledger.stats().problems).toEqual([
      expect.stringContaining('the newest events are missing: events 5 to 10 (6)'),
    ]);
    expect(
      await ledger.append({ events: testWindow(TEST_WINDOW_START + 60_000, 2) }),
    ).toMatchObject({ head: 12 });
  });

  test.each([
    ['no policy', EMPTY],
    ['no custom resource', { code: 404, body: {} }],
    ['no right to read it', { code: 403, body: {} }],
    ['a status of an older release', policyWith({ sequence: 10, chain: 'c0ffee' })],
    ['a status that is none', policyWith('x')],
    ['another ledger', policyWith({ id: 'other', sequence: 10, chain: 'c0ffee' })],
  ])('%s says nothing', async (_, answer) => {
    const ledger = await filled();
    answers = [answer];
    await compareWithStatus(comparing(ledger), never);
    expect(requested).toHaveLength(1);
    expect(ledger.head()).toBe(4);
    expect(ledger.stats().problems).toEqual([]);
  });

  test('it waits for an API server that does not answer, and says so once', async () => {
    const ledger = await filled();
    const { ledgerId, chain } = ledger.stats();
    const away = { code: 503, body: {} };
    answers = [away, away, policyWith({ id: ledgerId, sequence: 7, chain })];
    const tools = comparing(ledger);
    await compareWithStatus(tools, never);
    expect(tools.logger.lines).toEqual([expect.stringMatching(/^warn .*yet: HTTP 503/)]);
    expect(ledger.head()).toBe(7);
  });

  test('it waits for a database that is away, and ends when another process has it', async () => {
    answers = [policyWith({ id: 'l', sequence: 7, chain: 'c0ffee' })];
    const outcomes = [ledgerFailure('retryable', 'away'), ledgerFailure('fenced', 'taken over')];
    const ledger: Comparing['ledger'] = {
      compareWith: async () => outcomes.shift() ?? { kind: 'written' },
    };
    await expect(compareWithStatus(comparing(ledger), never)).rejects.toThrow('taken over');
    expect(outcomes).toEqual([]);
  });

  test('it ends when the process is to stop', async () => {
    answers = [{ code: 503, body: {} }];
    const stop = new AbortController();
    const tools = comparing({ compareWith: async () => ({ kind: 'written' }) });
    const ended = compareWithStatus(tools, stop.signal);
    await expect.poll(() => requested.length).toBeGreaterThan(1);
    stop.abort();
    await ended;
  });
});
