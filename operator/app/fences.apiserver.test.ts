import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { useTestCluster } from '../../e2e/control-plane/test-cluster.ts';
import { fencedDestinations } from '../delivery/fenced-destinations.ts';
import { createDestinationRegistry } from '../destinations/registry.ts';
import { createTestContext, testTenant } from '../destinations/testing/context.ts';
import type { Connection } from '../kubernetes/connection.ts';
import { fencedConnection } from '../kubernetes/fenced-connection.ts';
import { LeaderElection } from '../kubernetes/lease.ts';
import { createCapturingLogger } from '../kubernetes/testing/capturing-logger.ts';
import { connectWith } from '../kubernetes/testing/connect.ts';
import { createManualClock } from '../kubernetes/testing/manual-clock.ts';
import { testWindow, TEST_WINDOW_START } from '../ledger/testing/events.ts';
import { fencedOutbound } from '../outbound/fenced-outbound.ts';
import { startTestServer, type HttpTestServer } from '../outbound/testing/test-server.ts';

const cluster = useTestCluster();
/** As long as a process may be frozen before another one leads. */
const FROZEN_MS = 15_000;
let connection: Connection;
let namespace: string;
let frozenMs: number;
let election: LeaderElection;
let receiver: HttpTestServer;
let stop: AbortController;
let led: Promise<unknown>;
const mayAct = (): boolean => election.isTrusted();

beforeAll(() => {
  connection = connectWith(cluster.kubeconfig);
});
afterAll(async () => {
  await connection.close();
});

/** A leader, by a clock that stands still unless the test moves it. */
beforeEach(async () => {
  namespace = await cluster.createNamespace('fences');
  frozenMs = 0;
  const manual = createManualClock(Date.UTC(2026, 0, 1));
  const clock = { ...manual, monotonic: () => manual.monotonic() + frozenMs };
  receiver = await startTestServer((_, response) => void response.end('{}'));
  stop = new AbortController();
  election = new LeaderElection({
    connection,
    namespace,
    name: 'meterfeed',
    identity: 'first',
    clock,
    random: () => 0,
    logger: createCapturingLogger(),
    obstacle: () => undefined,
  });
  const leading = Promise.withResolvers<void>();
  led = election.run(stop.signal, async (signal) => {
    leading.resolve();
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
  });
  await leading.promise;
});
afterEach(async () => {
  stop.abort();
  await led;
  await receiver.close();
});

/** Time passes in which the process does nothing, and renews nothing; then it wakes up. */
function freeze(): void {
  frozenMs = FROZEN_MS;
}

test('a leader that was frozen in the middle of many requests sends the others when it wakes', async () => {
  const { outbound } = createTestContext();
  const client = fencedOutbound(outbound, mayAct).client({ name: 'x', baseUrl: receiver.url });
  expect(await client.request({ method: 'POST', path: '/1' })).toMatchObject({ status: 200 });
  freeze();
  expect(await client.request({ method: 'POST', path: '/2?secret=x' })).toEqual({
    kind: 'failed',
    reason: 'HTTP POST /2: not sent: the Lease is not renewed',
    sent: false,
    permanent: false,
  });
  expect(receiver.requests.map(({ url }) => url)).toEqual(['/1']);
  await client.close();
});

test('a leader that was frozen delivers when it wakes', async () => {
  const context = createTestContext();
  const create = fencedDestinations(createDestinationRegistry(context), mayAct);
  const options = { url: `${receiver.url}/hook`, secrets: [], headers: new Map(), source: 'a' };
  const made = create({
    name: 'hook',
    type: 'webhook',
    suspend: false,
    startFrom: 'earliest',
    options,
  });
  if (made.kind === 'invalid') throw new Error(made.reason);
  const { destination } = made;
  const events = testWindow(TEST_WINDOW_START, 2);
  const { signal } = new AbortController();
  freeze();
  const retried = { kind: 'retry', reason: expect.stringContaining('the Lease is not renewed') };
  expect(await destination.send(events, signal)).toEqual([retried, retried]);
  expect(await destination.bootstrap([], signal)).toEqual(retried);
  expect(await destination.customers?.provision(testTenant(), signal)).toEqual(retried);
  expect(await destination.customers?.offboard(testTenant(), signal)).toEqual(retried);
  expect(receiver.requests).toEqual([]);
  await destination.close();
});

test('a leader that was frozen marks namespaces and writes statuses when it wakes', async () => {
  const fenced = fencedConnection(connection, mayAct);
  const path = `/api/v1/namespaces/${namespace}`;
  const mark = (value: string) =>
    fenced.request(path, {
      method: 'PATCH',
      contentType: 'application/merge-patch+json',
      body: { metadata: { annotations: { 'meterfeed.io/test': value } } },
    });
  expect(await mark('led')).toMatchObject({ kind: 'ok' });
  freeze();
  expect(await mark('frozen')).toMatchObject({ kind: 'network' });
  expect(await fenced.request(path)).toMatchObject({
    kind: 'ok',
    body: { metadata: { annotations: { 'meterfeed.io/test': 'led' } } },
  });
});
