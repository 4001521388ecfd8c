import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { useOwnTestCluster } from '../../e2e/control-plane/test-cluster.ts';
import { createSettingsStore } from '../settings/settings-store.ts';
import { settingsFrom } from '../discovery/testing/host.ts';
import { createCapturingLogger } from '../kubernetes/testing/capturing-logger.ts';
import { connectWith } from '../kubernetes/testing/connect.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { N7 } from '../metering/meters/testing/gpu-nodes.ts';
import { cluster } from '../metering/meters/testing/objects.ts';
import type { UsageEvent } from '../model/event.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import { eventsOf } from '../metering/windows/testing/harness.ts';
import { createMachineRecordWatch } from './machine-records.ts';
import { startRig, waitUntil, WINDOW_MS } from './testing/tenant-api-rig.ts';

/**
 * One API server plays both parts: its Nodes are the tenant's own, its records those of the host.
 */
const api = useOwnTestCluster();
const a = cluster('a', { privateNodeTrust: 'provider' });
const MACHINES = '/apis/cluster.x-k8s.io/v1beta1/namespaces/default/machines';
const CLAIMS = '/apis/karpenter.sh/v1/nodeclaims';
const NODE = 'tenant_private_node_hours';

let directory = '';
let stop = new AbortController();
let ends: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'meterfeed-records-'));
  await writeFile(join(directory, 'crds.yaml'), CRDS);
  await api.installCRDs(join(directory, 'crds.yaml'));
});

afterAll(() => rm(directory, { recursive: true, force: true }));

beforeEach(async () => {
  stop = new AbortController();
  ends = [];
  await Promise.all([MACHINES, CLAIMS, '/api/v1/nodes'].map((path) => api.call('DELETE', path)));
});

afterEach(async () => {
  stop.abort();
  await Promise.all(ends.map((end) => end()));
});

/** The operator's view of both, with the records as that user may read them. */
async function start(recordsAs = api.kubeconfig, ledger = createMemoryLedger()) {
  const logger = createCapturingLogger();
  const connection = connectWith(recordsAs);
  const settings = createSettingsStore(settingsFrom({ 'spec.privateNodeTrust': 'provider' }));
  const { records, component } = createMachineRecordWatch({
    connection,
    settings,
    watchNamespaces: [],
    hostNode: () => undefined,
    clock: systemClock,
    random: Math.random,
    logger,
  });
  const watching = component.run(stop.signal);
  const kubeconfigs = { [a.id]: api.kubeconfig };
  const rig = await startRig({ clusters: [a], kubeconfigs, ledger, machines: records });
  let ended = false;
  const end = async (): Promise<void> => {
    if (ended) return;
    ended = true;
    stop.abort();
    await rig.stop();
    await watching;
    await connection.close();
  };
  ends.push(end);
  return { rig, ledger, records, logger, end };
}

type Started = Awaited<ReturnType<typeof start>>;

async function addMachine(name: string, more: { readonly labels?: object } = {}): Promise<void> {
  await api.call('POST', MACHINES, {
    apiVersion: 'cluster.x-k8s.io/v1beta1',
    kind: 'Machine',
    metadata: { name, ...more },
    spec: { clusterName: 'a', providerID: `cloud:///${name}` },
  });
}

async function addClaim(name: string, type: string): Promise<void> {
  const made = await api.call('POST', CLAIMS, {
    apiVersion: 'karpenter.sh/v1',
    kind: 'NodeClaim',
    metadata: { name, labels: { 'karpenter.sh/capacity-type': type } },
  });
  const status = { providerID: `cloud:///${name}`, capacity: { cpu: '8', memory: '32Gi' } };
  await api.call('PUT', `${CLAIMS}/${name}/status`, { ...made, status });
}

/** A node of the tenant's that shows a machine. */
async function addNode(name: string, machine: string, labels: object = {}): Promise<void> {
  const { capacity } = N7;
  const made = await api.call('POST', '/api/v1/nodes', {
    metadata: { name, labels: { ...N7.labels, ...labels } },
    spec: { providerID: `cloud:///${machine}` },
    status: { capacity, allocatable: capacity, conditions: [{ type: 'Ready', status: 'True' }] },
  });
  const spec = { providerID: `cloud:///${machine}`, taints: [] };
  await api.call('PUT', `/api/v1/nodes/${name}`, { ...made, spec });
}

const count = ({ rig }: Started, nodes: number): Promise<void> =>
  waitUntil(
    () => (rig.apis.list()[0]?.privateNodeCount() ?? 0) === nodes,
    `${nodes} private nodes`,
  );

/** The node events of whole windows of the next seconds. */
async function nodeEvents({ rig, ledger }: Started): Promise<readonly UsageEvent[]> {
  const from = Date.now();
  const closed = from + 3 * WINDOW_MS;
  await waitUntil(() => (rig.collector.lastWindow?.end ?? 0) > closed, 'later windows');
  return (await eventsOf(ledger)).filter(
    ({ metric, window_start }) => metric === NODE && Date.parse(window_start) > from,
  );
}

const of = (events: readonly UsageEvent[]) =>
  [
    ...new Set(
      events.map(
        ({ resource_id, dimensions, properties, quantity }) =>
          `${resource_id ?? ''} ${dimensions?.['capacity_type'] ?? ''} ${quantity}${properties?.['unverified'] === true ? ' unverified' : ''}`,
      ),
    ),
  ].toSorted();

/** A window's share of an hour. */
const COMPLETE = '0.000277778';

describe('under privateNodeTrust provider, by records that a real API server has', () => {
  test('a node is what its machine’s record says, whatever it says itself', async () => {
    await addClaim('i-1', 'reserved');
    await addMachine('i-2');
    await addNode('n1', 'i-1', { 'karpenter.sh/capacity-type': 'spot' });
    await addNode('n2', 'i-2', { 'karpenter.sh/capacity-type': 'spot' });
    await addNode('n3', 'i-3', { 'karpenter.sh/capacity-type': 'spot' });
    const started = await start();
    await count(started, 3);
    expect(of(await nodeEvents(started))).toEqual([
      `n1 reserved ${COMPLETE}`,
      `n2 on-demand ${COMPLETE}`,
      `n3 on-demand ${COMPLETE} unverified`,
    ]);
  });

  test('a node that its tenant taints, or marks as one of the syncer’s, goes on being billed', async () => {
    await addMachine('i-1');
    await addMachine('i-2');
    await addNode('n1', 'i-1');
    await addNode('n2', 'i-2', { 'vcluster.loft.sh/fake-node': 'true' });
    const node = await api.call('GET', '/api/v1/nodes/n1');
    const taints = [{ key: 'node.kubernetes.io/unreachable', effect: 'NoSchedule' }];
    const spec = { providerID: 'cloud:///i-1', taints };
    await api.call('PUT', '/api/v1/nodes/n1', { ...node, spec });
    const started = await start();
    await count(started, 2);
    expect(of(await nodeEvents(started))).toEqual([
      `n1 on-demand ${COMPLETE}`,
      `n2 on-demand ${COMPLETE}`,
    ]);
  });

  test('a node that its tenant deletes is billed until the record of its machine is gone', async () => {
    await addMachine('i-1');
    await addMachine('i-2');
    await addNode('n1', 'i-1');
    await addNode('n2', 'i-2');
    const started = await start();
    await count(started, 2);
    await api.call('DELETE', '/api/v1/nodes/n1');
    await api.call('DELETE', `${MACHINES}/i-2`);
    await api.call('DELETE', '/api/v1/nodes/n2');
    await count(started, 1);
    expect(of(await nodeEvents(started))).toEqual([`n1 on-demand ${COMPLETE}`]);
    await api.call('DELETE', `${MACHINES}/i-1`);
    await count(started, 0);
    expect(await nodeEvents(started)).toEqual([]);
  });

  test('a machine that is given another name is billed once at any time', async () => {
    await addMachine('i-1');
    await addNode('n1', 'i-1');
    const started = await start();
    await count(started, 1);
    const from = Date.now();
    await api.call('DELETE', '/api/v1/nodes/n1');
    await new Promise((resolve) => setTimeout(resolve, 2 * WINDOW_MS));
    await addNode('n2', 'i-1');
    const seen = () => [...(started.rig.apis.list()[0]?.observation.nodes.inNamespace('') ?? [])];
    await waitUntil(() => seen().some(({ name }) => name === 'n2'), 'the other name');
    await nodeEvents(started);
    const billed = (await eventsOf(started.ledger)).filter(
      ({ metric, window_start }) => metric === NODE && Date.parse(window_start) > from,
    );
    const byWindow = Map.groupBy(billed, ({ window_start }) => window_start);
    expect(byWindow.size).toBeGreaterThan(3);
    for (const events of byWindow.values()) {
      const carried = events.reduce(
        (sum, { properties }) => sum + Number(properties?.['carried_seconds'] ?? 0),
        0,
      );
      const seconds = events.reduce((sum, { quantity }) => sum + Number(quantity) * 3600, 0);
      expect(seconds - carried).toBeCloseTo(1, 2);
    }
    expect(new Set(billed.map(({ resource_id }) => resource_id))).toEqual(new Set(['n1', 'n2']));
  });

  test('a node that its tenant hides is known after a restart, and ends where its record went meanwhile', async () => {
    await addMachine('i-1');
    await addMachine('i-2');
    await addNode('n1', 'i-1');
    await addNode('n2', 'i-2');
    const first = await start();
    await count(first, 2);
    await api.call('DELETE', '/api/v1/nodes');
    await nodeEvents(first);
    await first.end();
    const ended = Date.now();
    await api.call('DELETE', `${MACHINES}/i-2`);
    await new Promise((resolve) => setTimeout(resolve, 3 * WINDOW_MS));
    stop = new AbortController();
    const second = await start(api.kubeconfig, first.ledger);
    await count(second, 1);
    expect(of(await nodeEvents(second))).toEqual([`n1 on-demand ${COMPLETE}`]);
    const billed = (node: string): number =>
      eventsAfter
        .filter(({ metric, resource_id }) => metric === NODE && resource_id === node)
        .reduce((sum, { quantity }) => sum + Number(quantity) * 3600, 0);
    const eventsAfter = (await eventsOf(second.ledger)).filter(
      ({ window_start }) => Date.parse(window_start) > ended + WINDOW_MS,
    );
    expect(billed('n1')).toBeGreaterThan(3);
    expect(billed('n2')).toBe(0);
  });

  test('a label of the record that changes counts from then on', async () => {
    await addClaim('i-1', 'spot');
    await addNode('n1', 'i-1');
    const started = await start();
    await count(started, 1);
    expect(of(await nodeEvents(started))).toEqual([`n1 spot ${COMPLETE}`]);
    const claim = await api.call('GET', `${CLAIMS}/i-1`);
    const metadata = { ...(claim['metadata'] as object), labels: {} };
    await api.call('PUT', `${CLAIMS}/i-1`, { ...claim, metadata });
    const state = () =>
      [...(started.rig.apis.list()[0]?.observation.nodes.inNamespace('') ?? [])][0]?.spans.at(-1);
    await waitUntil(() => state()?.state.capacityType === 'on-demand', 'the new reading');
    expect(of(await nodeEvents(started))).toEqual([`n1 on-demand ${COMPLETE}`]);
  });
});

test('records that may not be read, or are not served, delay nobody and are reported once', async () => {
  await addMachine('i-1');
  await addNode('n1', 'i-1');
  const stranger = await api.addUser('stranger');
  const started = await start(stranger);
  await count(started, 1);
  expect(of(await nodeEvents(started))).toEqual([`n1 on-demand ${COMPLETE} unverified`]);
  const reported = (plural: string): number =>
    started.logger.lines.filter((line) => line.includes(plural)).length;
  expect(reported('machines')).toBe(1);
  expect(reported('nodeclaims')).toBe(1);
  expect(reported('baremetalhosts')).toBe(1);
});

const SCHEMA = '{ type: object, x-kubernetes-preserve-unknown-fields: true }';
const crd = (group: string, kind: string, version: string, scope: string): string => `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: ${kind.toLowerCase()}s.${group} }
spec:
  group: ${group}
  scope: ${scope}
  names: { kind: ${kind}, plural: ${kind.toLowerCase()}s, singular: ${kind.toLowerCase()} }
  versions:
    - { name: ${version}, served: true, storage: true, subresources: { status: {} }, schema: { openAPIV3Schema: ${SCHEMA} } }
`;
const CRDS = [
  crd('cluster.x-k8s.io', 'Machine', 'v1beta1', 'Namespaced'),
  crd('karpenter.sh', 'NodeClaim', 'v1', 'Cluster'),
].join('---');
