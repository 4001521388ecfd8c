import { describe, expect, test } from 'vitest';
import type { RawObject } from '../kubernetes/source.ts';
import { createCapturingLogger } from '../kubernetes/testing/capturing-logger.ts';
import { projectNode } from '../metering/timelines/node.ts';
import { PrivateNodes } from './private-nodes.ts';
import { tenantCluster } from './testing/tenant-clusters.ts';

const CREATED = '2026-03-01T12:00:00Z';

function node(
  name: string,
  labels: Readonly<Record<string, string>> = {},
  nodeInfo: RawObject = {},
): RawObject {
  const metadata = { uid: `uid-${name}`, name, labels, creationTimestamp: CREATED };
  return { metadata, status: { nodeInfo } };
}

function setUp(hosts: readonly RawObject[] = [], source: 'workload' | 'external' = 'workload') {
  const logger = createCapturingLogger();
  const known = new Set<string>();
  const proven = new Set<string>();
  const views = hosts.flatMap((host) => projectNode(host) ?? []);
  const own = new PrivateNodes({
    host: { find: (_namespace, name) => views.find((view) => view.name === name) },
    cluster: () => tenantCluster('a', { source }),
    isKnown: (uid) => known.has(uid),
    isProven: ({ name }) => proven.has(name),
    logger,
  });
  const isOwn = (object: RawObject): boolean => {
    const view = own.project(object);
    return view !== undefined && own.foreignSince(view) === undefined;
  };
  return { own, isOwn, known, proven, logger };
}

const FAKE = { 'vcluster.loft.sh/fake-node': 'true' };
const SYNCED = { 'vcluster.loft.sh/managed-by': 'a' };

describe('a node that a tenant cluster’s API shows', () => {
  test('is its own, unless the host has it or the syncer made it', () => {
    const { isOwn } = setUp([node('h1')]);
    expect(isOwn(node('g1'))).toBe(true);
    expect(isOwn(node('h1'))).toBe(false);
    expect(isOwn(node('f1', FAKE))).toBe(false);
    expect(isOwn(node('s1', SYNCED))).toBe(false);
  });

  test('of a name that the host has is its own where both say that they are other machines', () => {
    const { isOwn } = setUp([node('h1', {}, { systemUUID: 'one' }), node('h2')]);
    expect(isOwn(node('h1', {}, { systemUUID: 'two' }))).toBe(true);
    expect(isOwn(node('h1', {}, { systemUUID: 'one' }))).toBe(false);
    expect(isOwn(node('h1'))).toBe(false);
    expect(isOwn(node('h2', {}, { systemUUID: 'two' }))).toBe(false);
  });

  test('is the host’s since the host has it', () => {
    const { own } = setUp([node('h1')]);
    const view = own.project(node('h1'));
    expect(view && own.foreignSince(view)).toBe(Date.parse(CREATED));
  });

  test('of an external tenant cluster has nothing to do with the host’s', () => {
    expect(setUp([node('h1')], 'external').isOwn(node('h1'))).toBe(true);
  });
});

describe('labels of the syncer’s that a tenant sets itself', () => {
  test('change nothing on a node that was its own before, and are logged once', () => {
    const { isOwn, known, logger } = setUp();
    known.add('uid-g1');
    expect(isOwn(node('g1', FAKE))).toBe(true);
    expect(isOwn(node('g1', FAKE))).toBe(true);
    const warned = logger.lines.filter((line) => line.includes('it is billed as before'));
    expect(warned).toHaveLength(1);
  });

  test('on a machine that looks like one of its own are logged, those of invented nodes are not', () => {
    const { isOwn, logger } = setUp([node('h1')]);
    expect(isOwn(node('f1', FAKE, { osImage: 'Fake Kubernetes Image' }))).toBe(false);
    expect(isOwn(node('h1', SYNCED, { osImage: 'Debian 13' }))).toBe(false);
    expect(logger.lines).toEqual([]);
    expect(isOwn(node('g1', SYNCED, { osImage: 'Debian 13' }))).toBe(false);
    expect(logger.lines.join()).toContain('node g1 carries vcluster.loft.sh/managed-by');
  });

  test('do not hide a machine that the provider has a record of', () => {
    const { isOwn, proven } = setUp();
    proven.add('g1');
    expect(isOwn(node('g1', FAKE))).toBe(true);
    expect(isOwn(node('g2', FAKE))).toBe(false);
  });
});

describe('a name of one of the host’s that a tenant gives its own node', () => {
  const ofMachine = (name: string, providerID: string): RawObject => ({
    ...node(name),
    spec: { providerID },
  });

  test('does not hide it where the provider has a record of its machine', () => {
    const { isOwn, proven } = setUp([ofMachine('h1', 'cloud:///i-1')]);
    expect(isOwn(ofMachine('h1', 'cloud:///i-2'))).toBe(false);
    proven.add('h1');
    expect(isOwn(ofMachine('h1', 'cloud:///i-2'))).toBe(true);
  });

  test('is that of the host’s node where both say that they are one machine', () => {
    const { isOwn, proven } = setUp([ofMachine('h1', 'cloud:///i-1')]);
    proven.add('h1');
    expect(isOwn(ofMachine('h1', 'cloud:///i-1'))).toBe(false);
  });
});
