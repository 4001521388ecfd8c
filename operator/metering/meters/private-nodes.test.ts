import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { gpusOf } from '../../model/gpu-units.ts';
import type { Unattributed } from './meter-reports.ts';
import { A10G, gpuNode, H100, N1, N2, N4, N7, variant } from './testing/gpu-nodes.ts';
import { closed, GPU, hourOf, METRICS, only, sums, COMPLETE } from './testing/node-hours.ts';
import {
  claim,
  cluster,
  CONTROL_PLANE,
  ownedBy,
  pod,
  service,
  workload,
} from './testing/objects.ts';
import { createWorld, HOUR, START, total } from './testing/world.ts';

const inside = 'tenant-tenant-a-a';
const usage = cluster('a', { privateNodeBilling: 'usage' });
const unreachable = [{ key: 'node.kubernetes.io/unreachable', effect: 'NoSchedule' }];

describe('private nodes, billed as a whole', () => {
  test('P01: each node with its GPUs, CPU and memory, as private_node', () => {
    const events = hourOf({ nodes: [N1, N7], inside });
    const mode = { billing_mode: 'private_node' };
    expect(sums(events, { node: 'n1', ...mode })).toEqual(COMPLETE);
    expect(sums(events, { node: 'n7', ...mode })).toEqual([1, 0, 0, 8, 32]);
    expect(events).toHaveLength(7);
    const skus = events.filter(({ metric }) => metric === METRICS.node).map(({ sku }) => sku);
    expect(skus).toEqual(['p5.48xlarge', 'm6i.2xlarge']);
  });

  test('their pods are covered, those of kube-system too', () => {
    const pods = [
      { name: 'p', namespace: 'ml', node: 'n1', containers: [{ [GPU]: 2, cpu: '4' }] },
      { name: 'q', namespace: 'kube-system', node: 'n1', containers: [{ cpu: '1' }] },
    ];
    const { events, diagnostics } = closed({ nodes: [N1], pods, inside });
    expect(sums(events)).toEqual(COMPLETE);
    expect(diagnostics.gpuBalances).toMatchObject([{ idle: 0n, unaccounted: 0n }]);
  });

  test('P11: a node that is down is downtime', () => {
    const events = hourOf({ nodes: [variant(N1, { taints: unreachable })], inside });
    expect(sums(events)).toEqual([0, 0, 8, 0, 0]);
  });

  test('P12: GPUs that cannot be allocated are downtime, the others are billed', () => {
    const events = hourOf({ nodes: [variant(N1, { allocatable: { [GPU]: '0' } })], inside });
    expect(sums(events)).toEqual([1, 0, 8, 192, 2048]);
    expect(only(events, 'down').properties?.['reason']).toBe('GPUs installed but not allocatable');
  });

  test('P16: a node that goes 20 s into a window is billed for 20 s', () => {
    const world = createWorld({ inside, windowMs: 60_000 });
    world.clusters([cluster('a')]);
    world.node(gpuNode(N1));
    world.nodeGone(gpuNode(N1), START + 20_000);
    const { events } = world.close(START, START + 60_000);
    expect(sums(events).slice(0, 2)).toEqual([0.005555556, 0.044444444]);
  });

  test('a node is nobody’s before its tenant cluster was there', () => {
    const world = createWorld({ inside });
    world.node(gpuNode(N1));
    world.clusters([cluster('a', {}, { createdAt: START + HOUR / 2 })], START + HOUR / 2);
    const { events, diagnostics } = world.close(START, START + HOUR);
    expect(sums(events)).toEqual([0.5, 4, 0, 96, 1024]);
    const hours = (amount = 0n): number => gpusOf(amount) / HOUR;
    const [balance] = diagnostics.gpuBalances;
    expect([balance?.installed, balance?.billed, balance?.idle].map(hours)).toEqual([8, 4, 4]);
    expect(balance?.unaccounted).toBe(0n);
  });

  test('one cut by MIG counts its silicon', () => {
    const events = hourOf({ nodes: [N4], inside });
    expect(only(events, 'gpu')).toMatchObject({ quantity: '8', sku: H100 });
  });
});

describe('nodes of a tenant cluster’s own, billed by usage', () => {
  const billed = (pods: Parameters<typeof closed>[0]['pods'], nodes = [N1], metering = usage) =>
    closed({ nodes, inside, clusters: [metering], pods });

  test('P02: pods are billed as private_node, those of excluded namespaces and nodes are not', () => {
    const { events } = billed([
      { name: 'p', namespace: 'ml', node: 'n1', containers: [{ [GPU]: 2 }] },
      { name: 'd', namespace: 'kube-system', node: 'n1', containers: [{ cpu: '1' }] },
    ]);
    expect(sums(events)).toEqual([0, 2, 0, 0, 0]);
    expect(only(events, 'gpu').dimensions).toMatchObject({ billing_mode: 'private_node' });
  });

  test('TENANT_EXCLUDE_NAMESPACES is the tenant cluster’s own setting', () => {
    const pods = ['ml', 'kube-system', 'ops'].map((namespace) => ({
      name: namespace,
      namespace,
      node: 'n1',
      containers: [{ cpu: '1' }],
    }));
    const excluding = cluster('a', { privateNodeBilling: 'usage', excludeNamespaces: ['ops'] });
    expect(total(billed(pods, [N1], excluding).events, METRICS.cpu)).toBe(2);
  });

  test('GPUs in an excluded namespace are free, and not reported', () => {
    const pods = [
      { name: 'p', namespace: 'ml', node: 'n1', containers: [{ [GPU]: 2 }] },
      { name: 'd', namespace: 'kube-system', node: 'n1', containers: [{ [GPU]: 4 }] },
    ];
    const { events, diagnostics } = billed(pods);
    expect(total(events, METRICS.gpu)).toBe(2);
    const [[name, { reason, gpu }]] = [...diagnostics.unattributed] as [[string, Unattributed]];
    expect([name, gpusOf(gpu) / HOUR]).toEqual(['kube-system/d', 4]);
    expect(reason).toContain('TENANT_EXCLUDE_NAMESPACES');
    expect(diagnostics.unattributed.size).toBe(1);
    // Pods on a node that is billed as a whole are paid for with it.
    const complete = closed({ nodes: [N1], pods, inside });
    expect(complete.diagnostics.unattributed.size).toBe(0);
  });

  test('P13: a pod that waits for a node costs nothing', () => {
    const pods = [
      {
        name: 'p',
        namespace: 'ml',
        node: null,
        phase: 'Pending',
        startedAt: null,
        containers: [{ [GPU]: 8 }],
      },
    ];
    expect(billed(pods).events).toEqual([]);
  });

  test('shares of GPUs are counted as on this cluster, and namespaces are those inside', () => {
    const byNamespace = cluster('a', { privateNodeBilling: 'usage', meterByNamespace: true });
    const pods = [{ name: 'p', namespace: 'ml', node: 'n2', containers: [{ [GPU]: 1 }] }];
    const { events } = billed(pods, [N2], byNamespace);
    expect(only(events, 'gpu')).toMatchObject({
      quantity: '0.25',
      sku: `${A10G}-timeslice-4`,
      dimensions: { namespace: 'ml', gpu_profile: 'timeslice-4' },
    });
  });

  test('unallocated GPUs are idle, those of excluded namespaces the system’s, and nothing is unaccounted', () => {
    const { diagnostics } = billed([
      { name: 'p', namespace: 'ml', node: 'n1', containers: [{ [GPU]: 2 }] },
      { name: 'd', namespace: 'kube-system', node: 'n1', containers: [{ [GPU]: 1 }] },
    ]);
    const [row] = diagnostics.gpuBalances;
    const gpu = (row?.installed ?? 0n) / 8n;
    expect(row).toMatchObject({ billed: 2n * gpu, system: gpu, idle: 5n * gpu, unaccounted: 0n });
  });

  test('accident 33: a tenant that labels its node as dedicated to it does not get its pods for nothing', () => {
    const labels = { 'vcluster.loft.sh/cluster': 'a' };
    const pods = [{ name: 'p', namespace: 'ml', node: 'n1', containers: [{ [GPU]: 2 }] }];
    expect(sums(billed(pods, [variant(N1, { labels })]).events)).toEqual([0, 2, 0, 0, 0]);
  });

  test('accident 32: labels that identify owners on the host mean nothing inside', () => {
    const labels = { app: 'vcluster', 'vcluster.loft.sh/managed-by': 'somebody-else' };
    const pods = [{ name: 'p', namespace: 'ml', labels, node: 'n1', containers: [{ [GPU]: 2 }] }];
    expect(sums(billed(pods).events)).toEqual([0, 2, 0, 0, 0]);
  });

  test('a change of PRIVATE_NODE_BILLING counts from its moment on', () => {
    const world = createWorld({ inside });
    world.clusters([cluster('a')]);
    world.node(gpuNode(N1));
    world.pod(pod({ name: 'p', namespace: 'ml', node: 'n1', containers: [{ [GPU]: 2 }] }));
    world.clusters([usage], START + HOUR / 2);
    const { events, diagnostics } = world.close(START, START + HOUR);
    expect(sums(events)).toEqual([0.5, 4 + 1, 0, 96, 1024]);
    expect(diagnostics.gpuBalances).toMatchObject([{ unaccounted: 0n }]);
  });
});

test('P09: on this cluster it has its control plane alone, which instance hours cover', () => {
  const world = createWorld();
  world.clusters([cluster('a', { privateNodeBilling: 'usage' })]);
  world.node(gpuNode(N7));
  world.workload(workload({ name: 'a' }));
  const own = { labels: CONTROL_PLANE, metadata: ownedBy('a') };
  world.pod(pod({ name: 'a-0', ...own, node: 'n7', containers: [{ cpu: '2' }] }));
  const { events } = world.close(START, START + HOUR);
  expect(events.map(({ metric, quantity }) => [metric, quantity])).toEqual([
    ['tenant_instance_hours', '1'],
  ]);
});

test('P14: volumes and load balancers inside are billed, and their events are not those of the host’s', () => {
  const build = (id?: string) => {
    const world = createWorld(id === undefined ? {} : { inside: id });
    world.clusters([cluster('a')]);
    world.claim(claim({ name: 'v', capacity: '100Gi', storageClass: 'csi' }));
    world.service(service({ name: 's' }));
    return world.close(START, START + HOUR).events;
  };
  const own = build(inside);
  expect(total(own, 'tenant_storage_gb_hours', { sku: 'csi' })).toBe(100);
  expect(total(own, 'tenant_lb_hours')).toBe(1);
  const ids = [...own, ...build()].map(({ id }) => id);
  expect(new Set(ids).size).toBe(4);
});

test('a node that the host has as well is billed once, whenever which of the two has it', () => {
  const second = fc.integer({ min: 0, max: 3600 });
  fc.assert(
    fc.property(fc.uniqueArray(second, { maxLength: 6 }), fc.boolean(), (times, hostFirst) => {
      const flips = times.toSorted((a, b) => a - b).map((time) => START + time * 1000);
      let hostHas: number | undefined = hostFirst ? START - HOUR : undefined;
      let hostMs = 0;
      const world = createWorld({ inside, foreignSince: () => hostHas });
      world.clusters([cluster('a')]);
      world.node(gpuNode(N1));
      for (const at of flips) {
        if (hostHas === undefined) {
          hostHas = at;
        } else {
          hostMs += at - Math.max(hostHas, START);
          hostHas = undefined;
        }
        world.observation.nodes.refresh(at);
      }
      if (hostHas !== undefined) hostMs += START + HOUR - Math.max(hostHas, START);
      const { amounts } = world.close(START, START + HOUR);
      const own = amounts.get(METRICS.node) ?? 0n;
      expect(Number(own / 1_000_000_000n) + hostMs).toBe(HOUR);
    }),
  );
});
