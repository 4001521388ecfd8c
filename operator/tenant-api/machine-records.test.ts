import { describe, expect, test } from 'vitest';
import type { RawObject } from '../kubernetes/source.ts';
import { createCapturingLogger } from '../kubernetes/testing/capturing-logger.ts';
import {
  type MachineRecord,
  projectBareMetalHost,
  projectMachine,
  projectNodeClaim,
} from '../metering/timelines/machine-record.ts';
import { type NodeView, projectNode } from '../metering/timelines/node.ts';
import { MachineRecords, providerWord } from './machine-records.ts';

const AT = { at: 1, knownUntil: 1, late: false };

function machine(name: string, spec: RawObject, status: RawObject = {}): MachineRecord {
  const metadata = { uid: `uid-${name}`, name, namespace: 'fleet' };
  return some(projectMachine({ metadata, spec, status }));
}

function node(name: string, providerID?: string, systemUUID?: string): NodeView {
  const metadata = { uid: `uid-${name}`, name };
  return some(
    projectNode({ metadata, spec: { providerID }, status: { nodeInfo: { systemUUID } } }),
  );
}

function some<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('no view');
  return value;
}

function setUp(given: readonly MachineRecord[] = [], hosts: readonly NodeView[] = []) {
  const logger = createCapturingLogger();
  const records = new MachineRecords({
    pending: () => false,
    hostNode: (name) => hosts.find((host) => host.name === name),
    logger,
  });
  for (const record of given) records.handler.upserted(record, undefined, AT);
  const titles = (owner: string, of: NodeView): readonly string[] =>
    records.of({ id: `tenant-${owner}`, name: owner }, of).map(({ title }) => title);
  return { records, titles, logger };
}

describe('a record of a machine proves', () => {
  test('the node that shows its provider id or its UUID, in any case of letters', () => {
    const { titles } = setUp([
      machine('m1', { providerID: 'aws:///us-east-1a/i-1' }),
      machine('m2', {}, { nodeInfo: { systemUUID: 'EC2-ABC' } }),
    ]);
    expect(titles('a', node('n1', 'aws:///us-east-1a/i-1'))).toEqual(['Machine fleet/m1']);
    expect(titles('a', node('n2', undefined, 'ec2-abc'))).toEqual(['Machine fleet/m2']);
    expect(titles('a', node('n3', 'aws:///us-east-1a/i-3', 'ec2-def'))).toEqual([]);
    expect(titles('a', node('n4'))).toEqual([]);
  });

  test('one node: another that shows the same machine gets nothing of it, and is reported', () => {
    const { titles, records, logger } = setUp([machine('m1', { providerID: 'aws:///a/i-1' })]);
    const [first, thief] = [node('n1', 'aws:///a/i-1'), node('n2', 'aws:///a/i-1')];
    expect(titles('a', first)).toHaveLength(1);
    expect(titles('b', thief)).toEqual([]);
    expect(titles('b', thief)).toEqual([]);
    expect(titles('a', first)).toHaveLength(1);
    expect(logger.lines.filter((line) => line.includes('proves another node'))).toHaveLength(1);
    records.release({ id: 'tenant-a' }, first.uid);
    expect(titles('b', thief)).toHaveLength(1);
  });

  test('after a restart the node that it proved before, whichever is seen first', () => {
    const { titles, records } = setUp([machine('m1', { providerID: 'aws:///a/i-1' })]);
    records.restore({ id: 'tenant-a' }, 'uid-n1', ['Machine fleet/m1']);
    expect(titles('b', node('n2', 'aws:///a/i-1'))).toEqual([]);
    expect(titles('a', node('n1', 'aws:///a/i-1'))).toHaveLength(1);
    records.forget('tenant-a');
    expect(titles('b', node('n2', 'aws:///a/i-1'))).toHaveLength(1);
  });

  test('no node of another cluster than the one that it names', () => {
    const { titles } = setUp([machine('m1', { providerID: 'aws:///a/i-1', clusterName: 'a' })]);
    expect(titles('b', node('n1', 'aws:///a/i-1'))).toEqual([]);
    expect(titles('a', node('n1', 'aws:///a/i-1'))).toHaveLength(1);
  });

  test('a node of the tenant cluster whose Machines have another name than it has itself', () => {
    const spec = { providerID: 'aws:///a/i-1', clusterName: 'blue-x7k2p' };
    const { records } = setUp([machine('m1', spec)]);
    const hosted = { id: 'hypershift-clusters-blue', name: 'blue', machineCluster: 'blue-x7k2p' };
    expect(records.of(hosted, node('n1', 'aws:///a/i-1'))).toHaveLength(1);
    const namesake = { id: 'kamaji-n-blue-x7k2p', name: 'blue-x7k2p', machineCluster: 'red' };
    expect(records.find(namesake, node('n2', 'aws:///a/i-1'))).toEqual([]);
  });

  test('no node of a tenant where its machine is a node of this cluster', () => {
    const host = node('h1', 'aws:///a/i-1');
    const spec = { providerID: 'aws:///a/i-1' };
    const { titles } = setUp([machine('m1', spec, { nodeRef: { name: 'h1' } })], [host]);
    expect(titles('a', node('h1', 'aws:///a/i-1'))).toEqual([]);
    expect(titles('a', node('other', 'aws:///a/i-1'))).toEqual([]);
  });

  test('nothing any more once it is gone or names another machine', () => {
    const first = machine('m1', { providerID: 'aws:///a/i-1' });
    const { titles, records } = setUp([first]);
    const second = machine('m1', { providerID: 'aws:///a/i-2' });
    records.handler.upserted(second, first, AT);
    expect(titles('a', node('n1', 'aws:///a/i-1'))).toEqual([]);
    expect(titles('a', node('n2', 'aws:///a/i-2'))).toHaveLength(1);
    records.handler.deleted(second, AT);
    expect(titles('a', node('n2', 'aws:///a/i-2'))).toEqual([]);
  });
});

test('nodes that came and went fill the memory', () => {
  const { records, titles } = setUp();
  for (let index = 0; index < 100; index += 1) {
    const passing = node(`n${index}`, `aws:///a/i-${index}`);
    titles('a', passing);
    records.release({ id: 'tenant-a' }, passing.uid);
  }
  titles('b', node('n', 'aws:///a/first'));
  titles('b', node('n', 'aws:///a/second'));
  expect(records.requested).toBe(1);
  records.forget('tenant-b');
  expect(records.requested).toBe(0);
});

test('another tenant that shows a node of the same uid frees its machine', () => {
  const { records, titles } = setUp([machine('m1', { providerID: 'aws:///a/i-1' })]);
  expect(titles('a', node('n1', 'aws:///a/i-1'))).toHaveLength(1);
  records.release({ id: 'tenant-b' }, 'uid-n1');
  expect(titles('b', node('n2', 'aws:///a/i-1'))).toEqual([]);
});

test('a record that comes later is not reported, because the machine had another name before', async () => {
  const { records, titles } = setUp();
  const reported: (readonly string[])[] = [];
  records.subscribe((tenants) => reported.push([...tenants]));
  titles('a', node('old', 'aws:///a/i-1'));
  titles('a', node('new', 'aws:///a/i-1'));
  records.release({ id: 'tenant-a' }, 'uid-old');
  records.handler.upserted(machine('m1', { providerID: 'aws:///a/i-1' }), undefined, AT);
  await Promise.resolve();
  expect(reported).toEqual([['tenant-a']]);
});

test('a thousand records that come at once are reported once, to those whose nodes they are about', async () => {
  const { records, titles } = setUp();
  const reported: (readonly string[])[] = [];
  records.subscribe((tenants) => reported.push([...tenants]));
  titles('a', node('n7', 'aws:///a/i-7'));
  titles('b', node('n9', 'aws:///a/i-none'));
  for (let index = 0; index < 1000; index += 1) {
    const record = machine(`m${index}`, { providerID: `aws:///a/i-${index}` });
    records.handler.upserted(record, undefined, AT);
  }
  await Promise.resolve();
  expect(reported).toEqual([['tenant-a']]);
});

describe('what the record says is read off', () => {
  test('a NodeClaim: kind of capacity, size and place', () => {
    const claim = projectNodeClaim({
      metadata: { uid: 'u', name: 'default-x', labels: { 'karpenter.sh/capacity-type': 'spot' } },
      status: {
        providerID: 'aws:///a/i-1',
        nodeName: 'n1',
        capacity: { cpu: '8', memory: '16Gi', 'nvidia.com/gpu': '1' },
      },
    });
    expect(claim).toMatchObject({ title: 'NodeClaim default-x', nodeName: 'n1', down: false });
    expect(providerWord([some(claim)], undefined)).toMatchObject({
      labels: { 'karpenter.sh/capacity-type': 'spot' },
      source: 'NodeClaim default-x',
      record: {
        cpu: 8_000_000_000n,
        extended: new Map([['nvidia.com/gpu', { capacity: 1, allocatable: 1 }]]),
      },
    });
  });

  test('a Machine: since when what is underneath is not ready; what it says of its node is the tenant’s word', () => {
    const since = '2026-03-01T12:00:00Z';
    const failed = { status: 'False', lastTransitionTime: since };
    const node = machine('m', {}, { conditions: [{ type: 'NodeHealthy', ...failed }] });
    expect(node.down).toBe(false);
    const under = machine('m', {}, { conditions: [{ type: 'InfrastructureReady', ...failed }] });
    expect(under).toMatchObject({ down: true, downSince: Date.parse(since) });
  });

  test('a BareMetalHost: its size, and that it is switched off', () => {
    const host = some(
      projectBareMetalHost({
        metadata: { uid: 'U-1', name: 'h1', namespace: 'metal' },
        spec: { online: false },
        status: { hardware: { cpu: { count: 64 }, ramMebibytes: 1024 } },
      }),
    );
    expect(host).toMatchObject({
      down: true,
      cpu: 64_000_000_000n,
      memory: 2n ** 30n * 1_000_000_000n,
    });
    const { titles } = setUp([host]);
    expect(titles('a', node('n1', 'metal3://u-1'))).toHaveLength(1);
    expect(titles('a', { ...node('n1', 'metal3://metal/h1/worker-0') })).toHaveLength(1);
  });

  test.each([
    [{}],
    [{ metadata: { uid: 'u', name: 'n' }, spec: null, status: 'x' }],
    [{ metadata: { uid: 'u', name: 'n', labels: { a: { b: {} } } }, spec: { providerID: 7 } }],
    [
      {
        metadata: { uid: 'u', name: 'n' },
        status: { hardware: { cpu: { count: -1e300 } }, capacity: { cpu: 'x' } },
      },
    ],
  ])('nothing that breaks anything out of %j', (object) => {
    const projections = [projectNodeClaim, projectMachine, projectBareMetalHost];
    const records = projections.flatMap((project) => project(object) ?? []);
    const stated = records.map(({ labels, down, cpu }) => ({ labels, down, cpu }));
    expect(stated).toEqual(records.map(() => ({ labels: {}, down: false, cpu: 0n })));
    expect(records).toHaveLength('metadata' in object ? 3 : 0);
  });
});
