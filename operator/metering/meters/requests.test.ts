import { describe, expect, test } from 'vitest';
import type { RawObject } from '../../kubernetes/source.ts';
import {
  cluster,
  CONTROL_PLANE,
  iso,
  node,
  SYNCED_LABELS,
  ownedBy,
  pod,
  workload,
} from './testing/objects.ts';
import { cpu, createWorld, hour, HOUR, memory, START, type World } from './testing/world.ts';

describe('CPU and memory by requests', () => {
  const sidecar = (requests: Record<string, string>): RawObject => ({
    name: 'side',
    restartPolicy: 'Always',
    resources: { requests },
  });
  const init = (requests: Record<string, string>): RawObject => ({
    name: 'init',
    resources: { requests },
  });
  const resizing = {
    containerStatuses: [
      {
        name: 'c0',
        state: { running: { startedAt: '2026-03-01T00:00:00Z' } },
        allocatedResources: { cpu: '2' },
        resources: { requests: { cpu: '2' } },
      },
    ],
  };
  const infeasible = {
    ...resizing,
    conditions: [{ type: 'PodResizePending', status: 'True', reason: 'Infeasible' }],
  };

  test.each([
    {
      id: 'C04: init containers, sidecars and overhead',
      pods: [
        pod({
          name: 'p',
          containers: [{ cpu: '500m', memory: '1Gi' }],
          initContainers: [
            sidecar({ cpu: '100m', memory: '128Mi' }),
            init({ cpu: '2', memory: '256Mi' }),
          ],
          spec: { overhead: { cpu: '250m', memory: '120Mi' } },
        }),
      ],
      want: [2.35, 1.2421875],
      reason: 'max(0.6, 2+0.1)+0.25; max(1152Mi,384Mi)+120Mi',
    },
    {
      id: 'C06: requests of the pod in place of its containers',
      pods: [
        pod({
          name: 'p',
          containers: [
            { cpu: '1', memory: '2Gi' },
            { cpu: '1', memory: '1Gi' },
          ],
          spec: {
            resources: { requests: { cpu: '4', memory: '8Gi' } },
            overhead: { cpu: '250m' },
          },
        }),
      ],
      want: [4.25, 8],
      reason: 'pod-level replaces, overhead adds',
    },
    {
      id: 'C07: a resize in progress',
      pods: [pod({ name: 'p', containers: [{ cpu: '4' }], status: resizing })],
      want: [4, 0],
      reason: 'a resize in progress holds the larger',
    },
    {
      id: 'C08: an infeasible resize',
      pods: [pod({ name: 'p', containers: [{ cpu: '4' }], status: infeasible })],
      want: [2, 0],
      reason: 'an infeasible wish holds nothing',
    },
    {
      id: 'C13: a pod without requests',
      pods: [pod({ name: 'p' })],
      want: [0, 0],
      reason: 'no requests',
    },
    {
      id: 'C14: pods that have ended or have no node',
      pods: [
        pod({
          name: 's',
          phase: 'Succeeded',
          finishedAt: START - HOUR,
          containers: [{ cpu: '4' }],
        }),
        pod({ name: 'f', phase: 'Failed', finishedAt: START - HOUR, containers: [{ cpu: '4' }] }),
        pod({
          name: 'u',
          phase: 'Pending',
          node: null,
          startedAt: null,
          containers: [{ cpu: '4' }],
        }),
      ],
      want: [0, 0],
      reason: 'terminal and unscheduled pods hold nothing',
    },
    {
      id: 'C21: memory in every notation',
      pods: ['129e6', '129M', '128974848', '123Mi', '128974848000m'].map((size, index) =>
        pod({ name: `p${index}`, containers: [{ memory: size }] }),
      ),
      want: [0, 0.600632787],
      reason: 'quantity grammar',
    },
    {
      id: 'C22: CPU in every notation',
      pods: ['0.1', '100m', '1e-1', '.1'].map((size, index) =>
        pod({ name: `p${index}`, containers: [{ cpu: size }] }),
      ),
      want: [0.4, 0],
      reason: 'quantity grammar',
    },
    {
      id: 'C23: an exponent, and a fraction of a unit',
      pods: [pod({ name: 'p', containers: [{ cpu: '1E-3', memory: '1.5Gi' }] })],
      want: [0.001, 1.5],
      reason: 'quantity grammar',
    },
    {
      id: 'a pod that waits for its image costs nothing',
      pods: [pod({ name: 'p', phase: 'Pending', startedAt: null, containers: [{ cpu: '1' }] })],
      want: [0, 0],
      reason: 'podLifetime running begins with the first container',
    },
    {
      id: 'a crash-looping pod is billed while it waits to start again',
      pods: [
        pod({
          name: 'p',
          containers: [{ cpu: '1' }],
          status: {
            containerStatuses: [
              {
                name: 'c0',
                state: { waiting: { reason: 'CrashLoopBackOff' } },
                lastState: {
                  terminated: {
                    startedAt: '2026-03-01T11:00:00Z',
                    finishedAt: '2026-03-01T11:30:00Z',
                  },
                },
              },
            ],
          },
        }),
      ],
      want: [1, 0],
      reason: 'it holds its requests',
    },
  ])('$id', ({ pods, want }) => {
    const events = hour((world) => {
      for (const object of pods) world.pod(object);
    });
    expect([cpu(events), memory(events)]).toEqual(want);
  });

  test('C26: spot and on-demand are charged separately', () => {
    const events = hour((world) => {
      world.node(node('spot', { 'karpenter.sh/capacity-type': 'spot' }));
      world.pod(pod({ name: 's', node: 'spot', containers: [{ cpu: '1' }] }));
      world.pod(pod({ name: 'o', containers: [{ cpu: '2' }] }));
    });
    expect(cpu(events, { capacity_type: 'spot' })).toBe(1);
    expect(cpu(events, { capacity_type: 'on-demand' })).toBe(2);
  });

  test('control plane pods are billed only when set', () => {
    const build = (meterControlPlane: boolean) => (world: World) => {
      world.clusters([cluster('a', { meterControlPlane })]);
      const own = { labels: CONTROL_PLANE, metadata: ownedBy('a') };
      world.pod(pod({ name: 'cp', ...own, containers: [{ cpu: '400m' }] }));
      world.pod(
        pod({
          name: 'etcd',
          labels: { ...CONTROL_PLANE, app: 'vcluster-etcd' },
          metadata: ownedBy('a-etcd'),
          containers: [{ cpu: '200m' }],
        }),
      );
      world.pod(pod({ name: 'p', containers: [{ cpu: '100m' }] }));
    };
    expect(cpu(hour(build(false)))).toBe(0.1);
    expect(cpu(hour(build(true)))).toBe(0.7);
  });

  test('C28: a pod that takes a snapshot of the control plane is the control plane’s', () => {
    const build = (meterControlPlane: boolean) => (world: World) => {
      world.clusters([cluster('a', { meterControlPlane })]);
      const labels = { app: 'vcluster-snapshot' };
      world.pod(pod({ name: 'snapshot', labels, containers: [{ cpu: '400m' }] }));
      // A tenant's pod with that label was copied by the syncer.
      const own = { ...SYNCED_LABELS, app: 'vcluster-snapshot' };
      world.pod(pod({ name: 'p', labels: own, containers: [{ cpu: '100m' }] }));
    };
    expect(cpu(hour(build(false)))).toBe(0.1);
    expect(cpu(hour(build(true)))).toBe(0.5);
  });

  test('C27: pods of a tenant cluster that is uninstalled are billed until they have ended', () => {
    const left = START + 10 * 60_000;
    const world = createWorld();
    world.clusters([cluster('a')]);
    const old = pod({ name: 'old', containers: [{ cpu: '6' }] });
    world.pod(old);
    world.pod(pod({ name: 'unlabelled', labels: {}, containers: [{ cpu: '60' }] }));
    world.clusters([], left);
    // The next tenant of the namespace does not pay for the previous one.
    const later = { createdAt: left + 1, labels: {}, containers: [{ cpu: '7' }] };
    world.pod(pod({ name: 'later', ...later }), left + 1);
    world.podGone(old, START + 20 * 60_000);
    const { events, diagnostics } = world.close(START, START + HOUR);
    expect(cpu(events)).toBe(6 / 3 + 60);
    expect([...diagnostics.unattributed.keys()]).toEqual(['tenant-a/later']);
  });

  test('a pod of an uninstalled tenant cluster that changes later is still billed to it', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    world.pod(pod({ name: 'p', containers: [{ cpu: '1' }] }));
    world.clusters([], START + HOUR / 4);
    const labels = { ...SYNCED_LABELS, 'vcluster.loft.sh/namespace': 'other' };
    world.pod(pod({ name: 'p', labels, containers: [{ cpu: '1' }] }), START + HOUR / 2);
    const { events, diagnostics } = world.close(START, START + HOUR);
    expect(cpu(events)).toBe(1);
    expect([...diagnostics.unattributed.keys()]).toEqual([]);
  });

  test('a pod of a control plane that becomes known late is not billed for closed windows', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    world.close(START, START + HOUR);
    const metadata = ownedBy('a');
    const seen = START + HOUR + 60_000;
    const containers = [{ cpu: '1' }];
    world.pod(pod({ name: 'a-0', labels: CONTROL_PLANE, metadata, containers }), seen);
    expect(cpu(world.close(START + HOUR, START + 2 * HOUR).events)).toBe(0);
  });

  test('a node that is made again under its name is for its pods what it was at each time', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    const first = node('n7', { 'karpenter.sh/capacity-type': 'reserved' });
    world.node(first);
    world.nodeGone(first, START + HOUR / 4);
    const spot = node('n7', { 'karpenter.sh/capacity-type': 'spot' });
    const creationTimestamp = iso(START + HOUR / 2);
    const metadata = { ...(spot['metadata'] as RawObject), uid: 'other', creationTimestamp };
    world.node({ ...spot, metadata }, START + HOUR / 2);
    world.pod(pod({ name: 'p', containers: [{ cpu: '4' }] }));
    const { events } = world.close(START, START + HOUR);
    const of = (type: string) => cpu(events, { capacity_type: type });
    // While no node of the name exists, its last state counts.
    expect([of('reserved'), of('on-demand'), of('spot')]).toEqual([2, 0, 2]);
  });

  test('a pod that waited for its node gets no reversal for downtime that was reported late', () => {
    const world = createWorld();
    world.clusters([cluster('a')]);
    for (const name of ['n7', 'n8']) world.node(node(name));
    const waits = { phase: 'Pending', startedAt: null, containers: [{ cpu: '1' }] };
    world.pod(pod({ name: 'p', node: null, ...waits }));
    const runs = { startedAt: START, containers: [{ cpu: '1' }] };
    world.pod(pod({ name: 'p', ...runs }), START);
    world.pod(pod({ name: 'q', node: 'n8', ...runs }), START);
    expect(cpu(world.close(START, START + HOUR).events)).toBe(2);
    const unreachable = { key: 'node.kubernetes.io/unreachable', effect: 'NoExecute' };
    const taints = [{ ...unreachable, timeAdded: iso(START + HOUR / 2) }];
    world.node({ ...node('n7'), spec: { taints } }, START + HOUR + 60_000);
    // Half an hour of `p` and its second hour are not billed; `q` is on another node.
    expect(cpu(world.close(START + HOUR, START + 2 * HOUR).events)).toBe(0.5);
  });

  test('C18: a tenant cannot make a pod free with the control plane label', () => {
    const events = hour((world) => {
      const labels = { ...SYNCED_LABELS, app: 'vcluster', release: 'renamed' };
      world.pod(pod({ name: 'p', labels, containers: [{ cpu: '300m' }] }));
    });
    expect(cpu(events)).toBe(0.3);
  });

  test('two tenant clusters in one namespace are charged for their own pods, and for nothing unattributed', () => {
    const world = createWorld();
    world.clusters([cluster('a'), cluster('b')]);
    world.pod(pod({ name: 'p', containers: [{ cpu: '1' }] }));
    const labels = { 'vcluster.loft.sh/managed-by': 'b' };
    world.pod(pod({ name: 'q', labels, containers: [{ cpu: '2' }] }));
    world.pod(pod({ name: 'stray', labels: {}, containers: [{ cpu: '4' }] }));
    const { events, diagnostics } = world.close(START, START + HOUR);
    expect(cpu(events, { tenant: 'tenant-tenant-a-a' })).toBe(1);
    expect(cpu(events, { tenant: 'tenant-tenant-a-b' })).toBe(2);
    expect(cpu(events)).toBe(3);
    expect([...diagnostics.unattributed.keys()]).toEqual(['tenant-a/stray']);
  });

  test('METER_BY_NAMESPACE splits by the namespace inside the tenant cluster', () => {
    const build = (meterByNamespace: boolean) => (world: World) => {
      world.clusters([cluster('a', { meterByNamespace })]);
      for (const [index, namespace] of ['ml', 'web'].entries()) {
        const labels = { ...SYNCED_LABELS, 'vcluster.loft.sh/namespace': namespace };
        world.pod(pod({ name: namespace, labels, containers: [{ cpu: String(index + 1) }] }));
      }
    };
    const split = hour(build(true));
    expect([cpu(split, { namespace: 'ml' }), cpu(split, { namespace: 'web' })]).toEqual([1, 2]);
    const complete = hour(build(false));
    expect(cpu(complete)).toBe(3);
    expect(complete.every((event) => event.dimensions?.['namespace'] === undefined)).toBe(true);
  });

  test('podLifetime scheduled bills from binding', () => {
    const build = (podLifetime: 'running' | 'scheduled') => (world: World) => {
      world.clusters([cluster('a', { podLifetime })]);
      world.pod(pod({ name: 'p', phase: 'Pending', startedAt: null, containers: [{ cpu: '1' }] }));
    };
    expect(cpu(hour(build('running')))).toBe(0);
    expect(cpu(hour(build('scheduled')))).toBe(1);
  });

  test('podLifetime scheduled bills the time before a node was found, or a pod that has none', () => {
    const lastTransitionTime = iso(START + HOUR / 2);
    const bound = { conditions: [{ type: 'PodScheduled', status: 'True', lastTransitionTime }] };
    const unbound = { conditions: [{ type: 'PodScheduled', status: 'False', lastTransitionTime }] };
    const waiting = { phase: 'Pending', startedAt: null, containers: [{ cpu: '1' }] };
    const events = hour((world) => {
      world.clusters([cluster('a', { podLifetime: 'scheduled' })]);
      world.pod(pod({ name: 'p', ...waiting, status: bound }), START + HOUR / 2);
      world.pod(pod({ name: 'q', ...waiting, node: null, status: unbound }));
    });
    expect(cpu(events)).toBe(0.5);
  });

  test('an excluded tenant cluster is not metered', () => {
    const events = hour((world) => {
      world.clusters([cluster('a', {}, { excluded: true })]);
      world.workload(workload({ name: 'a' }));
      world.pod(pod({ name: 'p', containers: [{ cpu: '1' }] }));
    });
    expect(events).toEqual([]);
  });
});
