import { setTimeout as delay } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { installCustomResources } from '../../operator/controllers/testing/install.ts';
import { usePostgres } from '../../operator/ledger/testing/postgres-ledger.ts';
import type { Clock } from '../../operator/telemetry/clock.ts';
import { type LedProcess, startLedProcess } from '../../operator/app/testing/led-world.ts';
import { useOwnTestCluster } from '../control-plane/test-cluster.ts';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

const CYCLES = 100;
/** By then everything is loaded that a first time loads. */
const SETTLED = 40;
/** How much faster than the machine's own clock the process's clock runs: the election waits seconds. */
const FACTOR = 2;
const startedAt = Date.now();
const elapsed = (): number => (Date.now() - startedAt) * FACTOR;
const fastClock: Clock = {
  now: () => startedAt + elapsed(),
  monotonic: elapsed,
  sleep: (ms, signal) => delay(ms / FACTOR, undefined, signal === undefined ? {} : { signal }),
};
const PATIENCE = { timeout: 60_000, interval: 20 };

const cluster = useOwnTestCluster();
const used = usePostgres();
let process_: LedProcess;
let lease = '';

beforeAll(async () => {
  await installCustomResources(cluster);
  const namespace = await cluster.createNamespace('cycles');
  const { user, port, name } = await used.server().createDatabase();
  lease = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/meterfeed`;
  process_ = await startLedProcess({
    cluster,
    namespace,
    pod: 'meterfeed-0',
    url: `postgresql://${user}@127.0.0.1:${port}/${name}?sslmode=disable`,
    clock: fastClock,
  });
});
afterAll(async () => {
  await process_?.stop();
});

/** Gives the Lease to another process, or to nobody. */
async function giveLeaseTo(holder: string): Promise<void> {
  await vi.waitFor(async () => {
    const found = await cluster.call('GET', lease);
    const spec = { ...Object(found['spec']), holderIdentity: holder };
    await cluster.call('PUT', lease, { ...found, spec });
  }, PATIENCE);
}

async function isStandby(): Promise<void> {
  await vi.waitFor(async () => {
    const answer = await process_.get('/api/v1/status').catch(() => undefined);
    expect(answer?.text, process_.log()).toContain('is a standby');
  }, PATIENCE);
}

/** What the process has, while it stands by. */
async function possessions() {
  // What is closing takes a moment.
  await vi.waitFor(async () => expect((await process_.get('/metrics')).status).toBe(200), PATIENCE);
  for (let turn = 0; turn < 5; turn += 1) {
    collect();
    await new Promise(setImmediate);
  }
  const { text } = await process_.get('/metrics');
  const series = text.split('\n').filter((line) => line.startsWith('meterfeed_')).length;
  const handles = process.getActiveResourcesInfo().filter((kind) => kind !== 'Immediate').length;
  return { series, handles, heap: process.memoryUsage().heapUsed };
}

test('a process that leads and steps down again and again has more of anything', {
  timeout: 1_200_000,
}, async () => {
  const all: Awaited<ReturnType<typeof possessions>>[] = [];
  for (let cycle = 0; cycle < CYCLES; cycle += 1) {
    await process_.leads();
    await giveLeaseTo('somebody else');
    await isStandby();
    all.push(await possessions());
    await giveLeaseTo('');
  }
  const settled = all.slice(SETTLED);
  const least = (key: 'series' | 'handles' | 'heap', part: typeof all) =>
    Math.min(...part.map((one) => one[key]));
  const [first, last] = [settled.slice(0, 20), settled.slice(-20)];
  expect(new Set(settled.map(({ series }) => series)).size).toBe(1);
  expect(least('handles', last)).toBeLessThanOrEqual(least('handles', first) + 2);
  expect(least('heap', last) - least('heap', first)).toBeLessThan(2 * 1024 * 1024);
});
