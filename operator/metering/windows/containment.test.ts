import { describe, expect, test, vi } from 'vitest';
import type { Ledger } from '../../ledger/ledger.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { gpuNode, N1 } from '../meters/testing/gpu-nodes.ts';
import { cluster, CONTROL_PLANE, pod, workload } from '../meters/testing/objects.ts';
import type { ManualClock } from '../../kubernetes/testing/manual-clock.ts';
import { createHandTenant, type HandTenant } from './testing/hand-tenant.ts';
import {
  at,
  clockAt,
  coreSeconds,
  eventsOf,
  life,
  pass,
  type Process,
  settingsOf,
  startProcess,
  windowsOf,
} from './testing/harness.ts';

const NODE = 'tenant_private_node_hours';
const HOSTILE = cluster('a');
const HONEST = cluster('b');

/** Two tenant clusters with a private node each, on one host. */
async function setUp(
  clock: ManualClock,
  ledger: Ledger,
  cause: (hostile: HandTenant, clock: ManualClock) => () => void,
) {
  let undo = (): void => undefined;
  const tenants: HandTenant[] = [];
  const process = await startProcess({
    ledger,
    clock,
    settings: { current: settingsOf({}) },
    objects: {
      workloads: [workload({ name: 'a' })],
      pods: [pod({ ...life, labels: CONTROL_PLANE })],
    },
    restoreTenants: ({ tenantClusters }) => {
      for (const { id } of [HOSTILE, HONEST]) {
        const tenant = createHandTenant({ id, clock, tenantClusters });
        tenant.listed = false;
        tenants.push(tenant);
        if (id === HOSTILE.id) undo = cause(tenant, clock);
      }
      return tenants;
    },
  });
  process.discover([HOSTILE, HONEST]);
  for (const tenant of tenants) {
    tenant.node(gpuNode(N1));
    tenant.listed = true;
  }
  return { process, undo };
}

async function billedNodes(ledger: Ledger, id: string): Promise<string[]> {
  const events = await eventsOf(ledger);
  return windowsOf(
    events.filter(({ dimensions }) => dimensions?.['tenant_cluster'] === id),
    NODE,
  );
}

const minutes = (first: number, last: number): string[] =>
  Array.from(
    { length: last - first + 1 },
    (_, index) => `12:${String(first + index).padStart(2, '0')}:00`,
  );

/** An accident that one tenant cluster causes until it is undone. */
interface Accident {
  readonly accident: string;
  readonly cause: (tenant: HandTenant, clock: ManualClock) => () => void;
  readonly reason: string;
  /** Complete windows that a restart closes before the accident happens again. */
  readonly completeAfterRestart?: 1;
}

const ACCIDENTS: readonly Accident[] = [
  {
    accident: 'makes measuring throw',
    cause: ({ observation: { nodes } }) => {
      const spy = vi.spyOn(nodes, 'inNamespace').mockImplementation(() => {
        throw new RangeError('Maximum call stack size exceeded');
      });
      return () => spy.mockRestore();
    },
    reason: 'measuring a window failed: Maximum call stack size exceeded',
  },
  {
    accident: 'makes the writing of its journal throw',
    cause: ({ observation: { nodes } }) => {
      const spy = vi.spyOn(nodes.unwritten, 'drain').mockImplementation(() => {
        throw new RangeError('Invalid string length');
      });
      return () => spy.mockRestore();
    },
    reason: 'its journal cannot be written: Invalid string length',
    completeAfterRestart: 1,
  },
  {
    accident: 'takes longer to measure than it may',
    cause: ({ observation: { nodes } }, clock) => {
      let worked = 0;
      const begun = clock.now() - clock.monotonic();
      vi.spyOn(clock, 'monotonic').mockImplementation(() => clock.now() - begun + worked);
      const nodesIn = nodes.inNamespace.bind(nodes);
      const spy = vi.spyOn(nodes, 'inNamespace').mockImplementation(function* (namespace) {
        for (const node of nodesIn(namespace)) {
          for (let step = 0; step < 1_000; step += 1) {
            worked += 10;
            yield node;
          }
        }
      });
      return () => spy.mockRestore();
    },
    reason: 'measuring a window takes longer than it may',
  },
];

describe.each(ACCIDENTS)('a tenant cluster whose API $accident', (accident) => {
  const { cause, reason, completeAfterRestart = 0 } = accident;

  test('is quarantined with the reason and a gap, while its neighbour and the host are billed on time', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const { process, undo } = await setUp(clock, ledger, cause);
    await pass(clock, 20 + 63);
    expect(await billedNodes(ledger, HONEST.id)).toEqual(minutes(1, 1));
    await pass(clock, 122);
    const events = await eventsOf(ledger);
    expect(await billedNodes(ledger, HOSTILE.id)).toEqual([]);
    expect(await billedNodes(ledger, HONEST.id)).toEqual(minutes(1, 3));
    expect(windowsOf(events, 'tenant_instance_hours')).toEqual(minutes(1, 3));
    const own = events.filter(({ dimensions }) => dimensions?.['tenant_cluster'] === HONEST.id);
    const hours = own.filter(({ metric }) => metric === NODE).map(({ quantity }) => quantity);
    expect(new Set(hours)).toEqual(new Set(['0.016666667']));
    expect(process.collector.quarantinedTenants()).toMatchObject([
      { tenantCluster: HOSTILE.id, reason },
    ]);
    expect(process.collector.gaps()).toMatchObject([
      { source: 'tenant-api', scope: HOSTILE.id, from: at(0), reason },
    ]);
    const lag = await process.metrics.lagSeconds.get();
    expect(lag.values[0]?.value).toBeLessThan(65);

    undo();
    await pass(clock, 600);
    const last = Math.floor((clock.now() - at(0)) / 60_000);
    expect(await billedNodes(ledger, HOSTILE.id)).toEqual(minutes(1, last));
    expect(process.collector.quarantinedTenants()).toEqual([]);
    expect(process.collector.gaps()).toEqual([]);
    const complete = await eventsOf(ledger);
    expect(new Set(complete.map(({ id }) => id)).size).toBe(complete.length);
    const billed = (id: string): string[] =>
      complete
        .filter(({ dimensions }) => dimensions?.['tenant_cluster'] === id)
        .filter(({ dimensions }) => dimensions?.['billing_mode'] === 'private_node')
        .map(({ metric, window_end, quantity }) => `${metric} ${window_end} ${quantity}`)
        .toSorted();
    expect(billed(HOSTILE.id)).toEqual(billed(HONEST.id));
    await process.kill();
  });

  test('costs its neighbour nothing after a restart either', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const before = await setUp(clock, ledger, cause);
    await pass(clock, 20 + 63);
    await before.process.kill();
    const after = await setUp(clock, ledger, cause);
    await pass(clock, 122);
    expect(await billedNodes(ledger, HONEST.id)).toEqual(minutes(1, 3));
    expect(await billedNodes(ledger, HOSTILE.id)).toEqual(minutes(1, completeAfterRestart));
    after.undo();
    await pass(clock, 300);
    expect(await billedNodes(ledger, HOSTILE.id)).toEqual(minutes(1, 8));
    expect(after.process.collector.quarantinedTenants()).toEqual([]);
    const ids = (await eventsOf(ledger)).map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    await after.process.kill();
  });
});

/** Makes every read of the pods of a host namespace throw. */
function breakPods(process: Process, namespace: string): () => void {
  const broken = [...process.observation.pods.inNamespace(namespace)];
  const spans = broken.map((timeline) => timeline.spans);
  for (const timeline of broken) {
    timeline.spans = timeline.spans.map(({ from, to, state }) => ({
      from,
      to,
      state: {
        ...state,
        get labels(): never {
          throw new RangeError('Maximum call stack size exceeded');
        },
      },
    }));
  }
  return () => {
    for (const [index, timeline] of broken.entries()) timeline.spans = spans[index] ?? [];
  };
}

test('objects on the host that make measuring throw hold their own namespace alone', async () => {
  const clock = clockAt(-20);
  const ledger = createMemoryLedger();
  const other = cluster('b', {}, { namespace: 'tenant-b' });
  const labels = (name: string) => ({ 'vcluster.loft.sh/managed-by': name });
  const process = await startProcess({
    ledger,
    clock,
    objects: {
      pods: [
        pod({ ...life, labels: labels('a') }),
        pod({ ...life, name: 'q', namespace: 'tenant-b', labels: labels('b') }),
      ],
      workloads: [workload({ name: 'a' })],
    },
  });
  process.discover([HOSTILE, other]);
  const of = async (id: string) =>
    (await eventsOf(ledger)).filter(({ dimensions }) => dimensions?.['tenant_cluster'] === id);
  const undo = breakPods(process, 'tenant-a');
  await pass(clock, 20 + 183);
  expect(coreSeconds(await of(other.id))).toBe(180);
  expect(windowsOf(await of(HOSTILE.id))).toEqual([]);
  expect(windowsOf(await of(HOSTILE.id), 'tenant_instance_hours')).toEqual(minutes(1, 3));
  const reason = 'measuring a window failed: Maximum call stack size exceeded';
  expect(process.collector.quarantinedTenants()).toMatchObject([
    { tenantCluster: HOSTILE.id, reason },
  ]);
  expect(process.collector.gaps()).toMatchObject([{ source: 'pods', scope: HOSTILE.id, reason }]);

  undo();
  await pass(clock, 600);
  const closed = Math.floor((clock.now() - at(0)) / 60_000);
  expect(coreSeconds(await of(HOSTILE.id))).toBe(closed * 60);
  expect(coreSeconds(await of(other.id))).toBe(closed * 60);
  expect(windowsOf(await of(HOSTILE.id)).toSorted()).toEqual(minutes(1, closed));
  expect(process.collector.quarantinedTenants()).toEqual([]);
  expect(process.collector.gaps()).toEqual([]);
  await process.kill();
});
