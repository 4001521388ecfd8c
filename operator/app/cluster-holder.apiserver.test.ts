import { Registry } from 'prom-client';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { useOwnTestCluster } from '../../e2e/control-plane/test-cluster.ts';
import { installCustomResources } from '../controllers/testing/install.ts';
import type { Connection } from '../kubernetes/connection.ts';
import { applyStatus } from '../kubernetes/status-publisher.ts';
import { createCapturingLogger } from '../kubernetes/testing/capturing-logger.ts';
import { connectWith } from '../kubernetes/testing/connect.ts';
import { createManualClock } from '../kubernetes/testing/manual-clock.ts';
import { errorText } from '../model/error-text.ts';
import { isRecord } from '../model/is-record.ts';
import { ClusterHolder } from './cluster-holder.ts';
import { ownCluster, startOperator } from './testing/operator-process.ts';

const cluster = useOwnTestCluster();
const POLICIES = '/apis/meterfeed.io/v1alpha1/meteringpolicies';
const LEDGER = 'b7c1';
const MINUTE = 60_000;
let connection: Connection;
let stop: AbortController;

beforeAll(async () => {
  await installCustomResources(cluster);
  connection = connectWith(cluster.kubeconfig);
});
beforeEach(() => {
  stop = new AbortController();
});
afterEach(async () => {
  stop.abort();
  await cluster.request('DELETE', `${POLICIES}/default`);
});
afterAll(async () => {
  await connection.close();
});

async function createPolicy(): Promise<string> {
  const body = { apiVersion: 'meterfeed.io/v1alpha1', kind: 'MeteringPolicy' };
  const made = await cluster.call('POST', POLICIES, {
    ...body,
    metadata: { name: 'default' },
    spec: {},
  });
  return String(isRecord(made['metadata']) && made['metadata']['uid']);
}

/** The namespace of the installation that the policy names. */
async function named(): Promise<unknown> {
  const { status } = await cluster.call('GET', `${POLICIES}/default`);
  const holder = isRecord(status) ? status['holder'] : undefined;
  return isRecord(holder) ? holder['namespace'] : undefined;
}

async function makeLease(namespace: string): Promise<void> {
  const path = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
  const body = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease' };
  await cluster.call('POST', path, { ...body, metadata: { name: 'meterfeed' }, spec: {} });
}

/** A process of an installation; `skew` is how far its clock is off, milliseconds. */
function processOf(namespace: string, skew = 0, ledgerId = LEDGER) {
  const clock = createManualClock(Date.UTC(2026, 0, 1) + skew);
  const logger = createCapturingLogger();
  const registry = new Registry();
  const tools = { connection, clock, logger, registry };
  const holder = new ClusterHolder({ ...tools, namespace, lease: 'meterfeed', ledgerId });
  const refused = async () => {
    const [value] = (await registry.getMetricsAsJSON()).flatMap(({ values }) => values);
    return value?.value;
  };
  return { clock, logger, holder, refused, claim: () => holder.claim(stop.signal) };
}

async function installation(): Promise<string> {
  const namespace = await cluster.createNamespace('operator');
  await makeLease(namespace);
  return namespace;
}

/**
 * A claim whose clock goes on as often as it has tried. `after` resolves to whether it has ended
 * within that time.
 */
function claiming(process: ReturnType<typeof processOf>) {
  const state = { ended: false };
  const end = process.claim().then(() => {
    state.ended = true;
  });
  const tried = () => Promise.race([end, process.clock.sleeper((ms) => ms === 5_000)]);
  return {
    after: async (ms: number): Promise<boolean> => {
      await tried();
      for (let waited = 0; waited < ms && !state.ended; waited += 5_000) {
        await process.clock.advance(5_000);
        await tried();
      }
      return state.ended;
    },
  };
}

/** What a part ends with; `''` where it ends in order. */
async function errorOf(running: Promise<void> | undefined): Promise<string> {
  try {
    await running;
    return '';
  } catch (error) {
    return errorText(error);
  }
}

async function renew(process: ReturnType<typeof processOf>): Promise<void> {
  const before = await cluster.call('GET', `${POLICIES}/default`);
  await process.clock.sleeper((ms) => ms === 30_000);
  await process.clock.advance(30_000);
  await process.clock.sleeper((ms) => ms === 30_000);
  expect(await cluster.call('GET', `${POLICIES}/default`)).not.toEqual(before);
}

test('a second installation bills everything once more', async () => {
  await createPolicy();
  const [a, b] = [await installation(), await installation()];
  const first = processOf(a);
  await first.claim();
  expect(await named()).toBe(a);
  const running = first.holder.run(stop.signal);
  // Its clock is an hour ahead: by that the first one would not have renewed for an hour.
  const second = processOf(b, 60 * MINUTE, 'other');
  const claim = claiming(second);
  expect(await claim.after(MINUTE)).toBe(false);
  await renew(first);
  expect(await claim.after(1.5 * MINUTE)).toBe(false);
  expect(await second.refused()).toBe(1);
  expect(await named()).toBe(a);
  expect(second.logger.lines).toHaveLength(1);
  expect(second.logger.lines[0]).toContain(
    `error [controller] another installation meters this cluster: the installation in namespace "${a}"`,
  );
  expect(second.logger.lines[0]).not.toContain('copy');
  stop.abort();
  await running;
});

test('one that stopped for good keeps everybody else from metering', async () => {
  await createPolicy();
  const [a, b] = [await installation(), await installation()];
  await processOf(a).claim();
  const second = processOf(b);
  expect(await claiming(second).after(3 * MINUTE)).toBe(true);
  expect(second.clock.monotonic()).toBeGreaterThanOrEqual(2 * MINUTE);
  expect(await named()).toBe(b);
  expect(await second.refused()).toBe(0);
});

test('who was thought to be gone goes on beside the one that took over', async () => {
  await createPolicy();
  const [a, b] = [await installation(), await installation()];
  const first = processOf(a);
  await first.claim();
  expect(await claiming(processOf(b)).after(3 * MINUTE)).toBe(true);
  const running = first.holder.run(stop.signal);
  const failure = errorOf(running);
  await first.clock.sleeper((ms) => ms === 30_000);
  await first.clock.advance(30_000);
  expect(await failure).toContain(`the installation in namespace "${b}"`);
  expect(await named()).toBe(b);
});

test('a restored copy of the volume bills everything once more', async () => {
  await createPolicy();
  const [a, b] = [await installation(), await installation()];
  await processOf(a).claim();
  const copy = processOf(b);
  expect(await claiming(copy).after(5_000)).toBe(false);
  expect(copy.logger.lines[0]).toContain('from another copy of this ledger');
});

test('a restart or another replica of the installation waits for two minutes', async () => {
  await createPolicy();
  const a = await installation();
  await processOf(a).claim();
  const next = processOf(a);
  await next.claim();
  expect(next.clock.monotonic()).toBe(0);
  expect(next.logger.lines).toEqual([]);
});

test('the first start waits for a policy that is made later, or two first starts go unnoticed', async () => {
  const [a, b] = [await installation(), await installation()];
  const processes = [processOf(a), processOf(b)] as const;
  for (const process of processes) await process.claim();
  const [first, second] = processes.map(({ holder }) => holder.run(stop.signal));
  await createPolicy();
  const [one, other] = processes;
  await one.clock.sleeper();
  await one.clock.advance(5_000);
  await one.clock.sleeper((ms) => ms === 30_000);
  const failure = errorOf(second);
  await other.clock.advance(5_000);
  expect(await failure).toContain('another installation meters this cluster');
  expect(await named()).toBe(a);
  stop.abort();
  await first;
});

test('a status that the operator writes takes the holder away', async () => {
  const uid = await createPolicy();
  const a = await installation();
  await processOf(a).claim();
  const resource = { group: 'meterfeed.io', version: 'v1alpha1', plural: 'meteringpolicies' };
  const target = { resource, kind: 'MeteringPolicy', name: 'default', uid };
  expect(await applyStatus(connection, target, { tenants: 3 })).toEqual({ kind: 'applied' });
  expect(await named()).toBe(a);
});

/** A whole operator in a namespace of its own, on a volume of its own. */
async function operator() {
  const namespace = await cluster.createNamespace('operator');
  const process = await startOperator({
    cluster: ownCluster(cluster.kubeconfigPath, namespace),
    environment: { RECONCILE_INTERVAL: '1s', 'spec.settlingDelay': '1s' },
    windowMs: 2_000,
  });
  const windows = () => process.log().split('[controller] window ').length - 1;
  return { ...process, namespace, windows };
}

test('two operators close the windows of one cluster', { timeout: 120_000 }, async () => {
  const patience = { timeout: 60_000, interval: 100 };
  const first = await operator();
  await vi.waitFor(async () => expect(await named()).toBe(first.namespace), patience);
  const second = await operator();
  const refusal = 'another installation meters this cluster';
  await vi.waitFor(() => expect(second.log()).toContain(refusal), patience);
  const before = first.windows();
  await vi.waitFor(() => expect(first.windows()).toBeGreaterThan(before + 1), patience);
  expect(second.windows()).toBe(0);
  await second.stop();
  await first.stop();
});
