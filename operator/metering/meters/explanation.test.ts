import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { SHARES_STORED } from './tally.ts';
import type { Explanation } from './explanation.ts';
import { gpuNode, N1, N2 } from './testing/gpu-nodes.ts';
import { claim, cluster, pod, workload } from './testing/objects.ts';
import { type Closed, createWorld, HOUR, START } from './testing/world.ts';

const MINUTE = 60_000;

function explanationOf(closed: Closed, metric: string): Explanation {
  const index = closed.events.findIndex((event) => event.metric === metric);
  const explanation = closed.explanations[index];
  if (explanation === undefined) throw new Error(`no event of ${metric}`);
  return explanation;
}

function sumOf({ shares, remainder: rest, givenBack }: Explanation): number {
  return shares.reduce((sum, [, , , , , , quantity]) => sum + quantity, rest.quantity + givenBack);
}

describe('an explanation', () => {
  test('names the pod, its stretch, its requests and the labels of its node', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    world.node(gpuNode({ ...N2, name: 'n2' }));
    const startedAt = START + 10 * MINUTE;
    const containers = [{ cpu: '2', 'nvidia.com/gpu': 1 }];
    world.pod(pod({ name: 'p', node: 'n2', createdAt: startedAt, containers }), startedAt);
    const closed = world.close(START, START + HOUR);
    expect(explanationOf(closed, 'tenant_cpu_core_hours')).toMatchObject({
      subjects: [
        {
          kind: 'Pod',
          namespace: 'tenant-a',
          ownedBy: 'vcluster.loft.sh/managed-by=a',
          requests: { cpu: 2, memoryGib: 0 },
          node: {
            capacityType: 'on-demand',
            decidedBy: { capacityType: 'karpenter.sh/capacity-type=on-demand' },
          },
        },
      ],
      nodes: ['n2'],
      shares: [[0, 'uid-p', 'p', 0, 10 * MINUTE, HOUR, 1.666666667, 0]],
    });
    const gpus = explanationOf(closed, 'tenant_gpu_hours');
    expect(gpus.subjects[0]?.gpus).toEqual({
      type: 'NVIDIA-A10G',
      profile: 'timeslice-4',
      devices: 1,
      gpus: 0.25,
      countedAs: 'equivalents',
    });
    expect(gpus.subjects[0]?.node?.decidedBy?.gpu).toContain('nvidia.com/gpu.replicas=4');
    expect(sumOf(gpus)).toBeCloseTo(0.25 * (50 / 60), 8);
  });

  test('names a complete node and the label that dedicates it', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    const labels = { ...N1.labels, 'vcluster.loft.sh/managed-by': 'tenant-a' };
    world.node(gpuNode({ ...N1, name: 'n1', labels }));
    const closed = world.close(START, START + HOUR);
    const { subjects, shares } = explanationOf(closed, 'tenant_private_node_hours');
    expect(subjects[0]).toMatchObject({
      kind: 'Node',
      node: { decidedBy: { dedicated: ['vcluster.loft.sh/managed-by=tenant-a'] } },
    });
    expect(shares).toEqual([[0, 'uid-n1', 'n1', 0, 0, HOUR, 1, 0]]);
  });

  test('of a pod on a private node does not name labels of a Namespace that is not there', () => {
    const world = createWorld({ inside: 'tenant-tenant-a-a' });
    world.clusters([cluster('a', { privateNodeBilling: 'usage' })]);
    world.node(gpuNode(N1));
    const containers = [{ cpu: '1' }];
    world.pod(pod({ name: 'p', namespace: 'ml', node: 'n1', labels: {}, containers }));
    const closed = world.close(START, START + HOUR);
    expect(explanationOf(closed, 'tenant_cpu_core_hours').subjects).toMatchObject([
      {
        namespace: 'ml',
        ownedBy: 'the only tenant cluster of its namespace, or its control plane',
      },
    ]);
  });

  test('has for each kind of object what determines its rate, and nothing else', () => {
    const world = createWorld();
    world.clusters([cluster('a', { gpuQuantity: 'devices' })]);
    const labels = { ...N1.labels, 'vcluster.loft.sh/managed-by': 'tenant-a' };
    world.node(gpuNode({ ...N1, name: 'n1', labels }));
    world.node(gpuNode({ ...N2, name: 'n2' }));
    const taints = [{ key: 'node.kubernetes.io/unreachable', effect: 'NoExecute' }];
    world.node(gpuNode({ ...N2, name: 'n3', taints }));
    world.workload(workload({ name: 'a' }));
    world.claim(claim({ name: 'v' }));
    const containers = [{ cpu: '1', memory: '2Gi', 'nvidia.com/gpu': 2 }];
    world.pod(pod({ name: 'p', node: 'n2', containers }));
    world.pod(pod({ name: 'q', node: 'n3', containers: [{ 'nvidia.com/gpu': 1 }] }));
    const closed = world.close(START, START + HOUR);
    const subjects = (metric: string) => {
      const reported = closed.events.flatMap((event, index) =>
        event.metric === metric ? (closed.explanations[index]?.subjects ?? []) : [],
      );
      return reported.map(({ node, ...subject }) => {
        const { decidedBy = {}, ...what } = node ?? {};
        return [subject, what, Object.keys(decidedBy)];
      });
    };
    const ownedBy = 'vcluster.loft.sh/managed-by=a';
    const common = { namespace: 'tenant-a', ownedBy };
    const capacityType = 'on-demand';
    expect(subjects('tenant_instance_hours')).toEqual([
      [
        { ...common, kind: 'Workload', ownedBy: 'it is the control plane of the tenant cluster' },
        {},
        [],
      ],
    ]);
    expect(subjects('tenant_storage_gb_hours')).toEqual([
      [{ ...common, kind: 'PersistentVolumeClaim', sizeGib: 100 }, {}, []],
    ]);
    const requests = { cpu: 1, memoryGib: 2 };
    expect(
      subjects('tenant_memory_gb_hours').filter(([subject]) => 'requests' in Object(subject)),
    ).toEqual([[{ ...common, kind: 'Pod', requests }, { capacityType }, ['capacityType']]]);
    const byNode = 'labels of the node, or it is a private node of the tenant cluster';
    expect(subjects('tenant_private_node_hours')).toEqual([
      [
        { kind: 'Node', ownedBy: byNode },
        { capacityType, cpu: 192, memoryGib: 2048 },
        ['capacityType', 'instanceType', 'dedicated'],
      ],
    ]);
    const shared = { type: 'NVIDIA-A10G', profile: 'timeslice-4', countedAs: 'devices' };
    const gpuType = 'NVIDIA-A10G';
    expect(subjects('tenant_gpu_hours').slice(0, 1)).toEqual([
      [
        { ...common, kind: 'Pod', gpus: { ...shared, devices: 2, gpus: 0.5, counted: 2 } },
        { capacityType, gpuType },
        ['capacityType', 'gpu'],
      ],
    ]);
    expect(subjects('tenant_gpu_downtime_hours')).toEqual([
      [
        { ...common, kind: 'Pod', gpus: { ...shared, devices: 1, gpus: 0.25, counted: 1 } },
        { capacityType, gpuType, down: true },
        ['capacityType', 'gpu'],
      ],
    ]);
  });

  test('has one share for a pod whose usage changes in the window, with all of it', () => {
    const world = createWorld();
    world.clusters([cluster('a', { cpuMemoryBasis: 'usage' })]);
    for (const name of ['p', 'q']) world.pod(pod({ name }));
    for (const [index, used] of ['1', '4', '1'].entries()) {
      world.sample({ p: [used, '0'], q: [used, '0'] }, START + index * 20 * MINUTE);
    }
    const closed = world.close(START, START + HOUR);
    expect(explanationOf(closed, 'tenant_cpu_core_hours').shares).toEqual([
      [0, 'uid-p', 'p', 0, 0, HOUR, 2, 0],
      [0, 'uid-q', 'q', 0, 0, HOUR, 2, 0],
    ]);
  });

  test('lists separately what was carried from closed windows, and the sum is the number', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    const containers = [{ cpu: '1' }];
    world.pod(pod({ name: 'p', containers }));
    world.pod(pod({ name: 'q', containers }));
    world.close(START, START + HOUR);
    const finishedAt = START + 45 * MINUTE;
    const ended = pod({ name: 'p', containers, phase: 'Succeeded', finishedAt });
    world.pod(ended, START + HOUR + MINUTE);
    const closed = world.close(START + HOUR, START + 2 * HOUR);
    const explanation = explanationOf(closed, 'tenant_cpu_core_hours');
    expect(explanation).toMatchObject({ measured: 1, carried: -0.25, givenBack: 0 });
    const carried = explanation.shares.filter(
      ([, , name, , , , , late]) => name === 'p' && late === 1,
    );
    expect(carried.map(([, , , , from, to, quantity]) => [from, to, quantity])).toEqual([
      [-HOUR, 0, -1],
      [-HOUR, -15 * MINUTE, 0.75],
    ]);
    expect(sumOf(explanation)).toBe(0.75);
  });

  test('counts workloads that were ready together once', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    world.workload(workload({ name: 'a' }));
    world.workload(workload({ name: 'a-second', labels: { app: 'vcluster', release: 'a' } }));
    const closed = world.close(START, START + HOUR);
    expect(sumOf(explanationOf(closed, 'tenant_instance_hours'))).toBe(1);
  });

  test('stays small however many pods a tenant has, and has the sum of what it leaves out', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    const containers = [{ cpu: '1' }];
    for (let index = 0; index < SHARES_STORED + 234; index += 1) {
      world.pod(pod({ name: `p${index}`, containers }));
    }
    const explanation = explanationOf(world.close(START, START + HOUR), 'tenant_cpu_core_hours');
    expect(explanation.shares).toHaveLength(SHARES_STORED);
    expect(explanation.remainder).toEqual({ count: 234, quantity: 234 });
  });

  test('adds up to the number whatever pods ran, and was sampled of them', () => {
    const life = fc.record({
      from: fc.integer({ min: 0, max: 3_500 }),
      for: fc.integer({ min: 1, max: 3_600 }),
      cpu: fc.integer({ min: 1, max: 64_000 }),
      gpus: fc.integer({ min: 0, max: 8 }),
    });
    fc.assert(
      fc.property(
        fc.array(life, { minLength: 1, maxLength: 12 }),
        fc.constantFrom('usage', 'requests', 'max'),
        (lives, cpuMemoryBasis) => {
          const world = createWorld();
          world.clusters([cluster('a', { cpuMemoryBasis })]);
          world.node(gpuNode({ ...N1, name: 'n1' }));
          for (const [index, { from, for: seconds, cpu, gpus }] of lives.entries()) {
            const startedAt = START + from * 1000;
            world.pod(
              pod({
                name: `p${index}`,
                node: 'n1',
                createdAt: startedAt,
                phase: 'Succeeded',
                finishedAt: startedAt + seconds * 1000,
                containers: [{ cpu: `${cpu}m`, memory: '1Gi', 'nvidia.com/gpu': gpus }],
              }),
              startedAt + seconds * 1000,
            );
          }
          const used = lives.map((_, index) => [`p${index}`, ['1500m', '2Gi']] as const);
          for (const minute of [0, 20, 40]) {
            world.sample(Object.fromEntries(used), START + minute * MINUTE);
          }
          for (const start of [START, START + HOUR]) {
            const { events, explanations } = world.close(start, start + HOUR);
            for (const [index, event] of events.entries()) {
              const explanation = explanations[index];
              if (explanation === undefined) throw new Error('an event without an explanation');
              const rounding = (explanation.shares.length + 1) * 1e-9;
              expect(Math.abs(sumOf(explanation) - Number(event.quantity))).toBeLessThan(rounding);
            }
          }
        },
      ),
      { numRuns: 50 },
    );
  });
});
