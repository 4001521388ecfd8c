import { expect, test } from 'vitest';
import type { Projected } from '../kubernetes/source.ts';
import { createCapturingLogger } from '../kubernetes/testing/capturing-logger.ts';
import { createManualClock } from '../kubernetes/testing/manual-clock.ts';
import { claim, NODE_SETTINGS, node, service } from '../metering/meters/testing/objects.ts';
import { START } from '../metering/meters/testing/times.ts';
import {
  type LoadBalancerView,
  projectLoadBalancer,
  projectVolumeClaim,
  type VolumeClaimView,
} from '../metering/timelines/retained-objects.ts';
import { type NodeView, projectNode } from '../metering/timelines/node.ts';
import { TenantClusterTimelines } from '../metering/timelines/tenant-cluster-timeline.ts';
import { currentState } from '../metering/timelines/timeline.ts';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { MissingKubeconfig } from './tenant-api.ts';
import { TenantApis } from './tenant-apis.ts';
import { readHere } from './testing/read-here.ts';
import { fakeDiscovery, noMachineRecords, tenantCluster } from './testing/tenant-clusters.ts';

const a = tenantCluster('a');

/** Objects of the host by name. */
function shelf<T extends Projected>() {
  const held = new Map<string, T>();
  return { held, find: (_namespace: string, name: string) => held.get(name) };
}

/**
 * The APIs of tenant cluster `a`, of which the journal knows, next to a host that has these
 * objects.
 */
function setUp(missing: readonly MissingKubeconfig[] = [], clusters = [a]) {
  const clock = createManualClock(START);
  const tenantClusters = new TenantClusterTimelines();
  tenantClusters.observe([a], START);
  const nodes = shelf<NodeView>();
  const volumes = shelf<VolumeClaimView>();
  const loadBalancers = shelf<LoadBalancerView>();
  const apis = new TenantApis({
    access: {
      list: () => [],
      missing: () => missing,
      subscribe: () => () => undefined,
    },
    enabled: () => true,
    discovery: { ...fakeDiscovery(...clusters), known: () => true },
    tenantClusters,
    machines: noMachineRecords(),
    host: {
      nodes: { ...nodes, health: () => ({ state: 'synced', since: 0, freshAt: START }) },
      volumes,
      loadBalancers,
    },
    observing: { nodeSettings: () => NODE_SETTINGS, billedUntil: (present) => present },
    reader: readHere,
    clock,
    random: () => 0.5,
    logger: createCapturingLogger(),
  });
  const nothing = {
    pods: undefined,
    nodes: undefined,
    resourceClaims: undefined,
    resourceSlices: undefined,
    volumes: undefined,
    loadBalancers: undefined,
  };
  apis.restore([{ id: a.id, hasPrivateNodes: true, resume: nothing }]);
  const arrival = () => ({ at: clock.now(), knownUntil: clock.now(), late: false });
  return { apis, nodes, volumes, loadBalancers, arrival, inside: apis.observe(a.id) };
}

/** A view of what a fixture shows, in a namespace. */
function seen<T extends Projected>(view: T | undefined, namespace: string, name: string): T {
  if (view === undefined) throw new Error('fixture without uid or name');
  return { ...view, namespace, name };
}

const syncedName = (name: string): string => `${name}-x-ml-x-a`;

test('what the syncer has put on the host is billed there alone', () => {
  const { apis, volumes, loadBalancers, inside, arrival } = setUp();
  const bound = seen(projectVolumeClaim(claim({ name: 'v' })), 'ml', 'v');
  const ready = seen(projectLoadBalancer(service({ name: 's' })), 'ml', 's');
  const known = () => ({
    volumes: [...inside.volumes.inNamespace('ml')].filter((one) => one.spans.length > 0).length,
    balancers: [...inside.loadBalancers.inNamespace('ml')].filter((one) => one.spans.length > 0)
      .length,
  });
  inside.volumes.upserted(bound, undefined, arrival());
  inside.loadBalancers.upserted(ready, undefined, arrival());
  expect(known()).toEqual({ volumes: 1, balancers: 1 });
  const hostVolume = seen(projectVolumeClaim(claim({ name: 'v' })), a.namespace, syncedName('v'));
  volumes.held.set(hostVolume.name, hostVolume);
  apis.onHost.volumes.upserted(hostVolume, undefined, arrival());
  expect(known()).toEqual({ volumes: 0, balancers: 1 });
  const host = seen(projectLoadBalancer(service({ name: 's' })), a.namespace, syncedName('s'));
  loadBalancers.held.set(host.name, host);
  apis.onHost.loadBalancers.upserted(host, undefined, arrival());
  expect(known()).toEqual({ volumes: 0, balancers: 0 });
});

test('a node that the host gets is the host’s from its creation there', () => {
  const { nodes, inside, arrival } = setUp();
  const own = seen(projectNode(node('g1')), '', 'g1');
  inside.nodes.upserted(own, undefined, arrival());
  const state = () => [...inside.nodes.inNamespace('')].map((one) => currentState(one)?.foreign);
  expect(state()).toEqual([undefined]);
  nodes.held.set('g1', { ...own, uid: 'host', createdAt: START - 60_000 });
  inside.nodes.refresh(START + 1000);
  expect(state()).toEqual([true]);
  const [timeline] = inside.nodes.inNamespace('');
  expect(timeline?.spans.map(({ to, state: { foreign } }) => [to, foreign])).toEqual([
    [START - 60_000, undefined],
    [Infinity, true],
  ]);
  nodes.held.clear();
  inside.nodes.refresh(START + 2000);
  expect(state()).toEqual([undefined]);
});

test('P18: a shared tenant cluster that nobody gave a kubeconfig is listed as failing, or one with own nodes is not', () => {
  const reason = 'no kubeconfig: Secret "x/svc-kubeconfig": missing';
  const without = (cluster: TenantCluster, kind: MissingKubeconfig['kind'] = 'absent') => {
    return { tenantCluster: cluster.id, kind, reason, since: START };
  };
  const shared = tenantCluster('shared');
  const refused = tenantCluster('refused');
  const unread = tenantCluster('unread');
  const says = tenantCluster('says', { nodeMode: 'private' });
  const external = tenantCluster('external', { source: 'external' });
  const { apis } = setUp(
    [
      // The journal knows of its nodes.
      without(a),
      without(external),
      without(refused, 'refused'),
      without(says),
      without(shared),
      without(unread, 'unread'),
    ],
    [a, external, refused, says, shared, unread],
  );
  const failed = [a, external, refused, says, unread];
  expect(apis.failures()).toEqual(
    failed.map(({ id }) => ({ tenantCluster: id, reason, since: START })),
  );
  expect(apis.withoutKubeconfig()).toEqual([shared.id]);
});
