import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { useOwnTestCluster } from '../../e2e/control-plane/test-cluster.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { H100, N1, N7, variant } from '../metering/meters/testing/gpu-nodes.ts';
import { cluster, iso } from '../metering/meters/testing/objects.ts';
import { projectNode } from '../metering/timelines/node.ts';
import type { UsageEvent } from '../model/event.ts';
import { DEFAULT_LIMITS } from '../tenant-api/limits.ts';
import { UNSEEN } from '../metering/windows/gaps.ts';
import { eventsOf } from '../metering/windows/testing/harness.ts';
import { severableProxy } from './testing/severable-proxy.ts';
import { addNode, startRig, waitUntil, WINDOW_MS } from './testing/tenant-api-rig.ts';

const api = useOwnTestCluster();
const a = cluster('a');
const b = cluster('b');
const NODE = 'tenant_private_node_hours';
const GPU = 'nvidia.com/gpu';

type Rig = Awaited<ReturnType<typeof startRig>>;

beforeEach(async () => {
  await api.call('DELETE', '/api/v1/nodes');
});

const ofMetric = (events: readonly UsageEvent[], metric: string): UsageEvent[] =>
  events.filter((event) => event.metric === metric);

/** Seconds, with the rounding of single events undone. */
function seconds(
  events: readonly UsageEvent[],
  metric: string,
  match: Readonly<Record<string, string>> = {},
): number {
  const milliseconds = ofMetric(events, metric)
    .filter(({ dimensions }) => Object.entries(match).every(([k, v]) => dimensions?.[k] === v))
    .map(({ quantity }) => Math.round(Number(quantity) * 3_600_000));
  return milliseconds.reduce((sum, each) => sum + each, 0) / 1000;
}

function expectUniqueIds(events: readonly UsageEvent[]): void {
  const ids = events.map(({ id }) => id);
  expect(new Set(ids).size).toBe(ids.length);
}

/** Windows of a metric, once each and without a hole between the first and the last. */
function expectWithoutHoles(events: readonly UsageEvent[]): void {
  const ends = events.map(({ window_end }) => Date.parse(window_end)).toSorted((x, y) => x - y);
  expect(new Set(ends).size).toBe(ends.length);
  expect((ends.at(-1) ?? 0) - (ends[0] ?? 0)).toBe((ends.length - 1) * WINDOW_MS);
}

const windowAfter = (rig: Rig, moment: number): Promise<void> =>
  waitUntil(() => (rig.collector.lastWindow?.end ?? 0) > moment, 'a later window');

const hasSeenNodes = (rig: Rig, count: number): Promise<void> =>
  waitUntil(
    () => (rig.apis.list()[0]?.privateNodeCount() ?? 0) === count,
    `${count} private nodes`,
  );

async function rigOf(clusters = [a], more: Partial<Parameters<typeof startRig>[0]> = {}) {
  const ledger = more.ledger ?? createMemoryLedger();
  const kubeconfigs = { [a.id]: api.kubeconfig };
  const rig = await startRig({ clusters, kubeconfigs, ...more, ledger });
  return { rig, ledger };
}

describe('a tenant cluster with nodes of its own', () => {
  test('P01: its nodes are billed whole, out of its own API', async () => {
    await addNode(api, 'g1', N1);
    await addNode(api, 'c1', N7);
    const { rig, ledger } = await rigOf();
    await hasSeenNodes(rig, 2);
    const from = Date.now();
    await windowAfter(rig, from + 2 * WINDOW_MS);
    await rig.stop();
    const events = (await eventsOf(ledger)).filter(
      ({ window_start }) => Date.parse(window_start) > from,
    );
    const [complete] = ofMetric(events, NODE).filter(({ resource_id }) => resource_id === 'g1');
    expect(complete).toMatchObject({
      quantity: '0.000277778',
      sku: 'p5.48xlarge',
      dimensions: { billing_mode: 'private_node', tenant_cluster: a.id, node: 'g1' },
    });
    expect(ofMetric(events, NODE).map(({ resource_id }) => resource_id)).toContain('c1');
    const [gpus] = ofMetric(events, 'tenant_gpu_hours');
    expect(gpus).toMatchObject({ quantity: '0.002222222', sku: H100 });
    const { gpus: balance } = rig.collector.reports().next().value ?? {};
    expect(balance?.privateNodes).toMatchObject([{ gpuType: H100, installed: 8, unaccounted: 0 }]);
    expect(balance?.nodes).toMatchObject([{ node: 'g1', tenantCluster: a.id }]);
    expectUniqueIds(await eventsOf(ledger));
  });

  test('P16: a node is billed to the moment of its deletion', async () => {
    const { rig, ledger } = await rigOf();
    await waitUntil(() => rig.apis.list()[0]?.listed === true, 'first list');
    const begun = Date.now();
    await addNode(api, 'g1', N7);
    await hasSeenNodes(rig, 1);
    await windowAfter(rig, begun + WINDOW_MS);
    await api.call('DELETE', '/api/v1/nodes/g1');
    const ended = Date.now();
    await hasSeenNodes(rig, 0);
    await windowAfter(rig, ended + WINDOW_MS);
    await rig.stop();
    // Its creation is given in whole seconds, its deletion when it arrives.
    const billed = seconds(await eventsOf(ledger), NODE);
    expect(Math.abs(billed - (ended - begun) / 1000)).toBeLessThan(1.2);
    await windowsAfterAreEmpty(await eventsOf(ledger), ended + WINDOW_MS);
  });

  async function windowsAfterAreEmpty(events: readonly UsageEvent[], moment: number) {
    expect(events.filter(({ window_start }) => Date.parse(window_start) >= moment)).toEqual([]);
  }

  test('P02, P14: by usage, its pods are billed, and its volumes and load balancers with them', async () => {
    await addNode(api, 'g1', N1);
    const namespace = await api.createNamespace('ml');
    const startedAt = iso(Math.floor(Date.now() / 1000) * 1000);
    const pod = async (home: string, name: string, requests: Record<string, string>) => {
      const path = `/api/v1/namespaces/${home}/pods`;
      const limits = Object.fromEntries(Object.entries(requests).filter(([key]) => key === GPU));
      const made = await api.call('POST', path, {
        metadata: { name },
        spec: {
          nodeName: 'g1',
          containers: [{ name: 'c', image: 'i', resources: { requests, limits } }],
        },
      });
      const state = { running: { startedAt } };
      const containerStatuses = [
        { name: 'c', image: 'i', imageID: 'i', ready: true, restartCount: 0, state },
      ];
      const status = { phase: 'Running', containerStatuses };
      await api.call('PUT', `${path}/${name}/status`, { ...made, status });
    };
    await pod(namespace, 'p', { [GPU]: '2', cpu: '3' });
    await pod('kube-system', `d-${namespace}`, { cpu: '1' });
    const claims = `/api/v1/namespaces/${namespace}/persistentvolumeclaims`;
    const claim = await api.call('POST', claims, {
      metadata: { name: 'v' },
      spec: {
        accessModes: ['ReadWriteOnce'],
        storageClassName: 'csi',
        resources: { requests: { storage: '100Gi' } },
      },
    });
    const bound = { phase: 'Bound', capacity: { storage: '100Gi' } };
    await api.call('PUT', `${claims}/v/status`, { ...claim, status: bound });
    const byUsage = cluster('a', { privateNodeBilling: 'usage', meterByNamespace: true });
    const { rig, ledger } = await rigOf([byUsage]);
    await hasSeenNodes(rig, 1);
    await waitUntil(() => rig.apis.list()[0]?.listed === true, 'all lists');
    const from = Date.now();
    await windowAfter(rig, from + 2 * WINDOW_MS);
    await rig.stop();
    const events = (await eventsOf(ledger)).filter(
      ({ window_start }) => Date.parse(window_start) > from,
    );
    const perWindow = events.length / new Set(events.map(({ window_end }) => window_end)).size;
    expect(perWindow).toBe(3);
    expect(ofMetric(events, 'tenant_gpu_hours')[0]).toMatchObject({
      quantity: '0.000555556',
      dimensions: { billing_mode: 'private_node', namespace },
    });
    expect(ofMetric(events, 'tenant_cpu_core_hours')[0]?.quantity).toBe('0.000833333');
    expect(ofMetric(events, 'tenant_storage_gb_hours')[0]).toMatchObject({
      quantity: '0.027777778',
      sku: 'csi',
    });
    await api.call('DELETE', `/api/v1/namespaces/kube-system/pods/d-${namespace}`);
  });

  test('P07, P08: nodes that the syncer invents or copies are not its own', async () => {
    await addNode(api, 'f1', variant(N7, { labels: { 'vcluster.loft.sh/fake-node': 'true' } }));
    await addNode(api, 's1', variant(N1, { labels: { 'vcluster.loft.sh/managed-by': 'a' } }));
    const { rig, ledger } = await rigOf();
    await windowAfter(rig, Date.now() + 2 * WINDOW_MS);
    expect(rig.apis.list()[0]?.hasPrivateNodes).toBe(false);
    await rig.stop();
    expect(await eventsOf(ledger)).toEqual([]);
  });

  test('a node that the host has too is billed on the host alone, one that only has its name is billed here', async () => {
    await addNode(api, 'h1', N7);
    await addNode(api, 'h2', N7);
    const hostNodes = ['h1', 'h2'].flatMap((name) => {
      const metadata = { uid: `host-${name}`, name, creationTimestamp: iso(Date.now() - 60_000) };
      const nodeInfo = name === 'h2' ? { systemUUID: 'machine-of-the-host' } : {};
      return projectNode({ metadata, status: { nodeInfo } }) ?? [];
    });
    const node = await api.call('GET', '/api/v1/nodes/h2');
    const info = { ...(node['status'] as object), nodeInfo: { systemUUID: 'its-own-machine' } };
    await api.call('PUT', '/api/v1/nodes/h2/status', { ...node, status: info });
    const { rig, ledger } = await rigOf([a], { hostNodes });
    await hasSeenNodes(rig, 1);
    await windowAfter(rig, Date.now() + WINDOW_MS);
    await rig.stop();
    const events = ofMetric(await eventsOf(ledger), NODE);
    expect(new Set(events.map(({ resource_id }) => resource_id))).toEqual(new Set(['h2']));
  });
});

describe('accident 33: a tenant cuts no bill by what it writes on its nodes', () => {
  test('a node that was billed is billed on when it is given a label of the syncer’s', async () => {
    await addNode(api, 'g1', N7);
    const { rig, ledger } = await rigOf();
    await hasSeenNodes(rig, 1);
    const node = await api.call('GET', '/api/v1/nodes/g1');
    const metadata = {
      ...(node['metadata'] as object),
      labels: { 'vcluster.loft.sh/fake-node': 'true' },
    };
    await api.call('PUT', '/api/v1/nodes/g1', { ...node, metadata });
    const labelled = Date.now();
    await windowAfter(rig, labelled + 2 * WINDOW_MS);
    await rig.stop();
    const after = (await eventsOf(ledger)).filter(
      ({ window_start }) => Date.parse(window_start) > labelled,
    );
    expect(seconds(after, NODE)).toBeGreaterThanOrEqual(1);
    expect(rig.logger.lines.join('\n')).toContain('it is billed as before');
  });
});

describe('a tenant API that fails', () => {
  test('P05, accident 16: is a gap and not a zero, and is filled exactly once when it is back', async () => {
    await addNode(api, 'g1', N7);
    const way = await severableProxy(api.kubeconfig);
    const { rig, ledger } = await rigOf([a], { kubeconfigs: { [a.id]: way.kubeconfig } });
    await hasSeenNodes(rig, 1);
    await windowAfter(rig, Date.now());
    await way.cut();
    const failed = Date.now();
    await waitUntil(() => rig.collector.gaps().length > 0, 'a gap');
    await windowAfter(rig, failed + 3 * WINDOW_MS);
    const [gap] = rig.collector.gaps();
    expect(gap).toMatchObject({ source: 'tenant-api', scope: a.id });
    expect(gap?.reason).toContain('nodes');
    expect(rig.apis.failures()).toMatchObject([{ tenantCluster: a.id }]);
    expect(seconds(await eventsOf(ledger), NODE)).toBeLessThan((failed - begunAt(rig)) / 1000 + 2);
    await way.restore();
    await waitUntil(() => rig.collector.gaps().length === 0, 'the gap to be filled');
    expect(rig.apis.failures()).toEqual([]);
    await windowAfter(rig, Date.now() + WINDOW_MS);
    await rig.stop();
    await way.cut();
    const events = ofMetric(await eventsOf(ledger), NODE);
    expectUniqueIds(events);
    expectWithoutHoles(events);
    const complete = events.slice(1).map(({ quantity }) => quantity);
    expect(new Set(complete)).toEqual(new Set(['0.000277778']));
    expect(events.some(({ properties }) => properties?.['backfilled'] === true)).toBe(true);
  });

  const begunAt = (rig: Rig): number =>
    Date.parse([...rig.collector.reports()].at(-1)?.windowStart ?? '');

  test('P04, P18: without a kubeconfig it is listed, a failure and a gap only where own nodes are known', async () => {
    const known = cluster('b', {}, { nodeMode: 'private' });
    const { rig, ledger } = await rigOf([a, known], { kubeconfigs: {} });
    await waitUntil(() => rig.collector.gaps().length > 0, 'a gap');
    expect(rig.apis.failures().map(({ tenantCluster }) => tenantCluster)).toEqual([b.id]);
    expect(rig.apis.withoutKubeconfig()).toEqual([a.id]);
    expect(rig.collector.gaps().map(({ scope }) => scope)).toEqual([b.id]);
    await rig.stop();
    expect(await eventsOf(ledger)).toEqual([]);
  });

  test('a kubeconfig that is withdrawn is a gap, and given back fills it', async () => {
    await addNode(api, 'g1', N7);
    const { rig, ledger } = await rigOf();
    await hasSeenNodes(rig, 1);
    await windowAfter(rig, Date.now());
    rig.access.withdraw(a.id);
    await waitUntil(() => rig.collector.gaps().length > 0, 'a gap');
    expect(rig.collector.gaps()[0]?.reason).toContain('no such Secret');
    rig.access.give(a.id, api.kubeconfig);
    const fillable = () => rig.collector.gaps().filter(({ reason }) => reason !== UNSEEN);
    await waitUntil(() => fillable().length === 0, 'the gap to be filled');
    await windowAfter(rig, Date.now() + WINDOW_MS);
    await rig.stop();
    const events = ofMetric(await eventsOf(ledger), NODE);
    expectUniqueIds(events);
    expectWithoutHoles(events);
  });

  test('more objects than one tenant may show: it is left alone, and says so', async () => {
    for (const name of ['n1', 'n2', 'n3']) await addNode(api, name, N7);
    const limits = { ...DEFAULT_LIMITS, objects: 2, bytes: 1e6, changes: 1e3 };
    const { rig, ledger } = await rigOf([a], { limits });
    await waitUntil(() => rig.apis.failures().length > 0, 'a failure');
    expect(rig.apis.failures()[0]?.reason).toBe('more than 2 objects');
    await waitUntil(() => rig.collector.gaps().length > 0, 'a gap');
    await rig.stop();
    expect(await eventsOf(ledger)).toEqual([]);
  });
});

describe('accident 8: a tenant API that hangs, answers garbage or knows nothing', () => {
  const servers: Server[] = [];
  afterEach(() => {
    for (const server of servers.splice(0)) {
      server.closeAllConnections();
      server.close();
    }
  });

  async function serve(answer: (end: (status: number, body: string) => void) => void) {
    const server = createServer((_request, response) => {
      answer((status, body) => response.writeHead(status).end(body));
    });
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    return kubeconfigFor(`http://127.0.0.1:${port}`);
  }

  const kubeconfigFor = (server: string): string =>
    JSON.stringify({
      clusters: [{ name: 'c', cluster: { server } }],
      users: [{ name: 'u', user: {} }],
      contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
      'current-context': 'x',
    });

  test('costs nothing to the others, whose windows close on time', async () => {
    await addNode(api, 'g1', N7);
    const bad = {
      hangs: await serve(() => undefined),
      refuses: kubeconfigFor('http://127.0.0.1:9'),
      garbage: await serve((end) => end(200, '<html>')),
      forbids: await serve((end) => end(403, '')),
      absent: await serve((end) => end(404, '')),
    };
    const others = Object.keys(bad).map((name) => cluster(name));
    const { rig, ledger } = await rigOf([a, ...others], {
      kubeconfigs: {
        [a.id]: api.kubeconfig,
        ...Object.fromEntries(
          Object.entries(bad).map(([name, kubeconfig]) => [cluster(name).id, kubeconfig]),
        ),
      },
    });
    await waitUntil(
      () => rig.apis.list().some((unit) => unit.privateNodeCount() === 1),
      'the node',
    );
    const from = Date.now();
    await windowAfter(rig, from + 3 * WINDOW_MS);
    expect(Date.now() - (rig.collector.lastWindow?.end ?? 0)).toBeLessThan(1500);
    const reasons = new Map(
      rig.apis.failures().map(({ tenantCluster, reason }) => [tenantCluster, reason]),
    );
    for (const name of ['refuses', 'garbage', 'forbids', 'absent']) {
      expect(reasons.has(cluster(name).id), name).toBe(true);
    }
    expect(reasons.has(a.id)).toBe(false);
    await rig.stop();
    const events = ofMetric(await eventsOf(ledger), NODE);
    expectWithoutHoles(events);
    expect(new Set(events.map(({ dimensions }) => dimensions?.['tenant_cluster']))).toEqual(
      new Set([a.id]),
    );
  });
});

test('killed and started again, it bills every second once, and what went meanwhile until it was last known', async () => {
  await addNode(api, 'g1', N7);
  await addNode(api, 'g2', N7);
  const { rig: first, ledger } = await rigOf();
  await hasSeenNodes(first, 2);
  await windowAfter(first, Date.now() + WINDOW_MS);
  await first.kill();
  const killed = Date.now();
  await api.call('DELETE', '/api/v1/nodes/g2');
  await new Promise((resolve) => setTimeout(resolve, 2 * WINDOW_MS));
  const { rig: second } = await rigOf([a], { ledger });
  const restarted = Date.now();
  await windowAfter(second, restarted + WINDOW_MS);
  await second.stop();
  const events = ofMetric(await eventsOf(ledger), NODE);
  expectUniqueIds(events);
  expectWithoutHoles(events.filter(({ resource_id }) => resource_id === 'g1'));
  const last = events.filter(({ resource_id }) => resource_id === 'g2').at(-1);
  expect(Date.parse(last?.window_end ?? '')).toBeLessThanOrEqual(restarted + WINDOW_MS);
  expect(Date.parse(last?.window_end ?? '')).toBeGreaterThan(killed - 2 * WINDOW_MS);
});

test('a tenant cluster that is gone is closed, and leaves neither a gap nor a record', async () => {
  await addNode(api, 'g1', N7);
  const { rig, ledger } = await rigOf();
  await hasSeenNodes(rig, 1);
  await windowAfter(rig, Date.now());
  rig.discover();
  const gone = Date.now();
  await waitUntil(() => rig.apis.list().length === 0, 'it to be let go');
  await windowAfter(rig, Date.now() + WINDOW_MS);
  await rig.stop();
  const events = ofMetric(await eventsOf(ledger), NODE);
  expect(Date.parse(events.at(-1)?.window_end ?? '')).toBeGreaterThanOrEqual(gone);
  expect(Date.parse(events.at(-1)?.window_start ?? '')).toBeLessThanOrEqual(gone);
  expect(rig.collector.gaps()).toEqual([]);
  const keys: string[] = [];
  for await (const [key] of ledger.records('journal/tenant-api')) keys.push(key);
  expect(keys).toEqual([]);
});
