import { expect, test } from 'vitest';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { gpuNode, H100, N1, variant } from '../meters/testing/gpu-nodes.ts';
import { cluster, iso, pod } from '../meters/testing/objects.ts';
import { total } from '../meters/testing/world.ts';
import { at, clockAt, eventsOf, life, pass, settingsOf, startProcess } from './testing/harness.ts';

const GPU = 'nvidia.com/gpu';
const training = { ...life, node: 'n1', containers: [{ [GPU]: '2' }] };

const down = variant(N1, {
  taints: [{ key: 'node.kubernetes.io/unreachable', effect: 'NoExecute', timeAdded: iso(at(90)) }],
});

async function gpuSecondsOf(ledger: ReturnType<typeof createMemoryLedger>, metric: string) {
  return Math.round(total(await eventsOf(ledger), metric) * 3600 * 1e3) / 1e3;
}

test('a window reports where all GPU time went, and that none is unaccounted for', async () => {
  const ledger = createMemoryLedger();
  const clock = clockAt(-5);
  const objects = { nodes: [gpuNode(N1)], pods: [pod(training)] };
  const process = await startProcess({ ledger, clock, objects });
  process.discover([cluster('a')]);
  await pass(clock, 70);
  const [report] = process.collector.reports();
  const row = {
    gpuType: H100,
    installed: 480,
    billed: 120,
    idle: 360,
    downtime: 0,
    system: 0,
    overlap: 0,
    carried: 0,
    unaccounted: 0,
  };
  const own = { delivered: 120, healthy: 120, reserved: 120, inUse: 120 };
  const rest = { delivered: 360, healthy: 360, reserved: 0, inUse: 0 };
  expect(report?.gpus).toEqual({
    models: [row],
    tenants: [
      { tenant: cluster('a').tenant, gpuType: H100, ...own },
      { tenant: 'unassigned', gpuType: H100, ...rest },
    ],
    nodes: [{ node: 'n1', ...row }],
  });
  expect((await process.metrics.unaccountedGpuSeconds.get()).values).toMatchObject([{ value: 0 }]);
  await process.kill();
});

test('an outage that is reported after its window closed is carried, over a restart as well', async () => {
  const ledger = createMemoryLedger();
  const clock = clockAt(-5);
  const objects = { nodes: [gpuNode(N1)], pods: [pod(training)] };
  const process = await startProcess({ ledger, clock, objects });
  process.discover([cluster('a')]);
  await pass(clock, 135);
  process.nodes.apply(gpuNode(down));
  await process.kill();
  const restarted = { nodes: [gpuNode(down)], pods: [pod(training)] };
  const again = await startProcess({ ledger, clock, objects: restarted });
  again.discover([cluster('a')]);
  await pass(clock, 20);
  again.nodes.apply(gpuNode(N1));
  await pass(clock, 95);
  expect(await gpuSecondsOf(ledger, 'tenant_gpu_hours')).toBe(2 * (90 + 90));
  expect(await gpuSecondsOf(ledger, 'tenant_gpu_downtime_hours')).toBe(2 * 60);
  expect(again.collector.reports().next().value?.openReversalSeconds).toBe(0);
  await again.kill();
});

test('settings for nodes that changed while the operator was away hold from its return', async () => {
  const ledger = createMemoryLedger();
  const clock = clockAt(-5);
  const objects = {
    nodes: [gpuNode(variant(N1, { labels: { 'example.com/sku': 'h100-sxm' } }))],
    pods: [pod(training)],
  };
  const first = await startProcess({ ledger, clock, objects });
  first.discover([cluster('a')]);
  await pass(clock, 70);
  await first.stop();
  const settings = { current: settingsOf({ SKU_LABEL: 'example.com/sku' }) };
  const second = await startProcess({ ledger, clock, objects, settings });
  second.discover([cluster('a')]);
  await pass(clock, 120);
  const skus = (await eventsOf(ledger))
    .filter(({ metric }) => metric === 'tenant_gpu_hours')
    .map(({ sku, window_end }) => [sku, window_end.slice(11, 19)]);
  expect(skus).toContainEqual([H100, '12:01:00']);
  expect(skus).toContainEqual(['h100-sxm', '12:03:00']);
  expect(skus).not.toContainEqual([H100, '12:03:00']);
  await second.kill();
});
