import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Ledger } from '../../ledger/ledger.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { gpuNode, N1, N7 } from '../meters/testing/gpu-nodes.ts';
import { cluster, CONTROL_PLANE, ownedBy, pod, workload } from '../meters/testing/objects.ts';
import { total } from '../meters/testing/world.ts';
import { UNSEEN } from './gaps.ts';
import { createHandTenant, type HandTenant } from './testing/hand-tenant.ts';
import {
  at,
  clockAt,
  eventsOf,
  life,
  pass,
  settingsOf,
  startProcess,
  windowsOf,
} from './testing/harness.ts';

const NODE = 'tenant_private_node_hours';
const a = cluster('a');

/** Tenant cluster `a` with one private node, beside its control plane on the host. */
async function setUp(
  metering = {},
  environment = {},
  ledger: Ledger = createMemoryLedger(),
  forbidden?: string,
) {
  const clock = clockAt(-20);
  const tenants: HandTenant[] = [];
  const settings = { current: settingsOf(environment) };
  const process = await startProcess({
    ledger,
    clock,
    settings,
    forbidden,
    objects: {
      workloads: [workload({ name: 'a' })],
      pods: [pod({ ...life, labels: CONTROL_PLANE, metadata: ownedBy('a') })],
    },
    tenants: {
      list: () => tenants,
      release: (id) => {
        const index = tenants.findIndex((tenant) => tenant.id === id);
        if (index !== -1) tenants.splice(index, 1);
      },
    },
  });
  const tenant = createHandTenant({
    id: a.id,
    clock,
    tenantClusters: process.observation.tenantClusters,
  });
  tenant.node(gpuNode(N1));
  process.discover([cluster('a', metering)]);
  tenants.push(tenant);
  return { clock, ledger, process, tenant, tenants };
}

/** The tenant cluster is gone after an outage of its own API. */
async function goneAfterOutage({
  clock,
  process,
  tenant,
}: Pick<Awaited<ReturnType<typeof setUp>>, 'clock' | 'process' | 'tenant'>): Promise<void> {
  await pass(clock, 20 + 64);
  tenant.fail('HTTP 503');
  await pass(clock, 200);
  process.discover([]);
  tenant.observation.nodes.listed(() => false, at(64));
  tenant.ended = { at: clock.now(), knownUntil: at(64) };
}

const minute = (end: number): string => `12:${String(end).padStart(2, '0')}:00`;
const minutes = (first: number, last: number): string[] =>
  Array.from({ length: last - first + 1 }, (_, index) => minute(first + index));

describe('the scope of a tenant cluster’s own API', () => {
  test('that fails is a gap of that tenant cluster, holds back nothing else, and is filled exactly once', async () => {
    const { clock, ledger, process, tenant } = await setUp();
    await pass(clock, 20 + 30);
    tenant.fail('HTTP 503');
    await pass(clock, 180);
    const during = await eventsOf(ledger);
    expect(windowsOf(during, NODE)).toEqual([]);
    expect(windowsOf(during, 'tenant_instance_hours')).toEqual(minutes(1, 3));
    expect(process.collector.gaps()).toEqual([
      { source: 'tenant-api', scope: a.id, from: at(0), to: at(180), reason: 'nodes: HTTP 503' },
    ]);
    const lag = await process.metrics.lagSeconds.get();
    expect(lag.values[0]?.value).toBeLessThan(60);
    tenant.recover();
    await pass(clock, 34);
    const after = await eventsOf(ledger);
    expect(windowsOf(after, NODE)).toEqual(minutes(1, 4));
    expect(process.collector.gaps()).toEqual([]);
    expect(new Set(after.map(({ id }) => id)).size).toBe(after.length);
    await process.kill();
  });

  test('that returns too late to report what came and went leaves a gap of the tenant cluster', async () => {
    const { clock, process, tenant } = await setUp();
    await pass(clock, 20 + 30);
    tenant.fail('HTTP 503');
    await pass(clock, 180);
    tenant.relist();
    await pass(clock, 64);
    const unseen = { source: 'tenant-api', scope: a.id, from: at(30), to: at(210), reason: UNSEEN };
    expect(process.collector.gaps()).toEqual([unseen]);
    await process.kill();
  });

  test('of a tenant cluster without nodes of its own hides nothing that is billed', async () => {
    const { clock, process, tenant } = await setUp();
    tenant.hasPrivateNodes = false;
    await pass(clock, 20 + 30);
    tenant.fail('HTTP 503');
    await pass(clock, 180);
    tenant.relist();
    await pass(clock, 64);
    tenant.hasPrivateNodes = true;
    await pass(clock, 60);
    expect(process.collector.gaps()).toEqual([]);
    await process.kill();
  });

  test('P09: bills its nodes, and the host its control plane alone', async () => {
    const { clock, ledger, process } = await setUp();
    await pass(clock, 20 + 64);
    const events = await eventsOf(ledger);
    const modes = events.map(({ metric, dimensions }) => [metric, dimensions?.['billing_mode']]);
    expect(Object.fromEntries(modes)).toEqual({
      tenant_cpu_core_hours: 'private_node',
      tenant_gpu_hours: 'private_node',
      tenant_instance_hours: undefined,
      tenant_memory_gb_hours: 'private_node',
      [NODE]: 'private_node',
    });
    expect(events).toHaveLength(5);
    await process.kill();
  });

  test('GPU time in a namespace that it leaves out shows nowhere', async () => {
    const { clock, process, tenant } = await setUp({ privateNodeBilling: 'usage' });
    const containers = [{ 'nvidia.com/gpu': 2 }];
    tenant.pod(pod({ ...life, name: 'd', namespace: 'kube-system', node: 'n1', containers }));
    await pass(clock, 20 + 70);
    const { unattributed } = process.collector.lastReport('gpus') ?? {};
    expect(unattributed?.gpus).toEqual({ seconds: 120, objects: 1 });
    expect(unattributed?.items[0]).toContain(`${a.id}: kube-system/d: in a namespace of`);
    expect(process.logs.join('\n')).toContain('120 GPU-seconds are unattributed');
    await process.kill();
  });

  test('whatever its outages, every second of a node is billed once', async () => {
    const outage = fc.record({
      up: fc.integer({ min: 1, max: 150 }),
      down: fc.integer({ min: 1, max: 200 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(outage, { minLength: 1, maxLength: 4 }), async (outages) => {
        const { clock, ledger, process, tenant } = await setUp();
        await pass(clock, 20);
        for (const { up, down } of outages) {
          await pass(clock, up);
          tenant.fail('reset');
          await pass(clock, down);
          tenant.recover();
        }
        const now = outages.reduce((sum, { up, down }) => sum + up + down, 0);
        await pass(clock, 64 - (now % 60));
        const events = (await eventsOf(ledger)).filter(({ metric }) => metric === NODE);
        const quantities = events.map(({ quantity }) => quantity);
        expect(new Set(quantities)).toEqual(new Set(['0.016666667']));
        expect(windowsOf(events, NODE).toSorted()).toEqual(minutes(1, Math.floor(now / 60) + 1));
        expect(process.collector.gaps()).toEqual([]);
        await process.kill();
      }),
      { numRuns: 12 },
    );
  });

  test('an outage beyond MAX_BACKFILL is given up, and stays a gap', async () => {
    const { clock, ledger, process, tenant } = await setUp({}, { MAX_BACKFILL: '10m' });
    await pass(clock, 20 + 64);
    tenant.fail('HTTP 503');
    await pass(clock, 1200);
    tenant.recover();
    await pass(clock, 60);
    const lost = process.collector.gaps().filter(({ source }) => source === 'collector');
    expect(lost).toMatchObject([{ scope: a.id, from: at(60), reason: 'older than MAX_BACKFILL' }]);
    const [gap] = lost;
    const billed = total(await eventsOf(ledger), NODE) * 3600;
    const known = 22 * 60 - ((gap?.to ?? 0) - (gap?.from ?? 0)) / 1000;
    expect(Math.abs(billed - known)).toBeLessThan(1e-3);
    await process.kill();
  });

  test('of a shared tenant cluster alarms nobody, however long it fails', async () => {
    const { clock, process, tenant } = await setUp({}, { MAX_BACKFILL: '10m' });
    tenant.hasPrivateNodes = false;
    tenant.fail('HTTP 503');
    await pass(clock, 1200);
    expect(process.collector.gaps()).toEqual([]);
    expect(process.logs.filter((line) => line.includes('not metered'))).toEqual([]);
    await process.kill();
  });

  test('that has much to catch up with lets the host’s windows go first', async () => {
    const { clock, process, tenant } = await setUp();
    await pass(clock, 20);
    tenant.fail('HTTP 503', at(603));
    await pass(clock, 604);
    const caughtUp = [...process.collector.reports().take(11)].toReversed();
    expect(caughtUp[0]).toMatchObject({
      windowEnd: '2026-03-01T12:10:00Z',
      scopes: ['pods', 'gpus', 'volumes', 'load-balancers', 'workloads'],
    });
    expect(caughtUp[1]).toMatchObject({ scopes: ['tenant-api'], tenantApis: 1 });
    await process.kill();
  });

  test('that is first seen later is metered from the window in which it is seen', async () => {
    const { clock, ledger, process, tenants } = await setUp();
    const waiting = tenants.splice(0);
    await pass(clock, 20 + 150);
    tenants.push(...waiting);
    await pass(clock, 60);
    expect(windowsOf(await eventsOf(ledger), NODE)).toEqual([minute(3)]);
    await process.kill();
  });

  test('whose tenant cluster is gone after an outage is let go, and what nobody saw stays a gap', async () => {
    const world = await setUp();
    const { clock, ledger, process, tenants } = world;
    await goneAfterOutage(world);
    await pass(clock, 70);
    expect(tenants).toEqual([]);
    expect(process.collector.gaps()).toEqual([
      {
        source: 'collector',
        scope: a.id,
        from: at(64),
        to: at(264),
        reason: 'the tenant cluster is gone, and its API had failed before',
      },
    ]);
    expect(Math.round(total(await eventsOf(ledger), NODE) * 3600)).toBe(64);
    await process.kill();
  });
});

test('everything of this cluster counts as closed because a tenant cluster’s own window closed before it was listed', async () => {
  const { clock, ledger, process } = await setUp({}, {}, createMemoryLedger(), 'all');
  await pass(clock, 20 + 130);
  expect(windowsOf(await eventsOf(ledger), NODE)).toEqual(minutes(1, 2));
  expect(process.collector.closedUntil()).toBe(-Infinity);
  await process.kill();
});

test('a gap of a tenant cluster that is gone is lost with the next start where the ledger was busy', async () => {
  const memory = createMemoryLedger();
  let isBusy = false;
  const failed = { kind: 'failed', cause: 'retryable', message: 'busy' } as const;
  const writeRecords: Ledger['writeRecords'] = async (changes) =>
    isBusy ? failed : memory.writeRecords(changes);
  const world = await setUp({}, {}, { ...memory, writeRecords });
  const { clock, process, tenant, tenants } = world;
  await goneAfterOutage(world);
  isBusy = true;
  await pass(clock, 70);
  expect(tenants).toEqual([tenant]);
  isBusy = false;
  await pass(clock, 60);
  expect(tenants).toEqual([]);
  const gaps = process.collector.gaps();
  expect(gaps).toMatchObject([{ source: 'collector', scope: a.id, from: at(64), to: at(264) }]);
  await process.kill();
  const again = await startProcess({ ledger: memory, clock });
  expect(again.collector.gaps()).toEqual(gaps);
  await again.kill();
});

describe('usage inside of a tenant cluster', () => {
  const byUsage = { privateNodeBilling: 'usage', cpuMemoryBasis: 'usage' } as const;
  const inside = pod({ ...life, namespace: 'ml', node: 'n1' });
  const answering = (cores: string) => ({
    bytes: () => {
      const usage = { cpu: cores, memory: '1Gi' };
      const item = { metadata: { name: 'p', namespace: 'ml' }, containers: [{ name: 'c', usage }] };
      const text = JSON.stringify({ metadata: {}, items: [item] });
      const chunks = (async function* () {
        yield new TextEncoder().encode(text);
      })();
      return Promise.resolve({ kind: 'ok', chunks } as const);
    },
  });

  test('is read from its own metrics API', async () => {
    const { clock, ledger, process, tenant } = await setUp(byUsage);
    tenant.node(gpuNode({ ...N7, name: 'n1' }));
    tenant.pod(inside);
    tenant.metricsApi = answering('2');
    await pass(clock, 20 + 64);
    const events = await eventsOf(ledger);
    const mode = { billing_mode: 'private_node' };
    expect(Math.round(total(events, 'tenant_cpu_core_hours', mode) * 3600)).toBe(120);
    expect(Math.round(total(events, 'tenant_memory_gb_hours', mode) * 3600)).toBe(60);
    await process.kill();
  });

  test('that cannot be read is a warning and a gap that no later window takes back', async () => {
    const { clock, process, tenant } = await setUp(byUsage);
    tenant.pod(inside);
    tenant.metricsApi = {
      bytes: () => Promise.resolve({ kind: 'network', message: 'HTTP 404' } as const),
    };
    await pass(clock, 20 + 124);
    expect(process.logs).toContain(`[metrics] warning: cannot get pod metrics for ${a.id}`);
    const gap = { source: 'metrics', scope: a.id, reason: 'HTTP 404' };
    expect(process.collector.gaps()).toMatchObject([{ ...gap, to: at(120) }]);
    await process.kill();
  });
});
