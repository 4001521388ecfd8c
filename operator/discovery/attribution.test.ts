import { describe, expect, test } from 'vitest';
import { attribute, type OwnershipLabels } from './attribution.ts';
import { discoverHost } from './testing/host.ts';
import { workload } from './testing/objects.ts';

const { clusters: alone } = discoverHost({ workloads: [workload('tenant-a', 'a')] });
const { clusters: shared } = discoverHost({
  workloads: [workload('tenant-a', 'a'), workload('tenant-a', 'b')],
});

function owner(labels: OwnershipLabels, clusters = alone, namespace = 'tenant-a'): string {
  const attribution = attribute({ namespace, labels }, clusters);
  return 'cluster' in attribution
    ? `${attribution.kind} ${attribution.cluster.name}`
    : attribution.kind;
}

describe('a tenant exempts its own pods by labelling them', () => {
  test.each<readonly [reason: string, labels: OwnershipLabels, expected: string]>([
    ['G38: app of a control plane', { managedBy: 'a', app: 'vcluster' }, 'tenant a'],
    ['C18: nested, release renamed', { managedBy: 'a', app: 'vcluster' }, 'tenant a'],
    ['with release too', { managedBy: 'a', app: 'vcluster', release: 'a' }, 'tenant a'],
    ['S08: a claim', { managedBy: 'a', app: 'tenant-cluster' }, 'tenant a'],
    ['no release and no managed-by', { app: 'vcluster' }, 'tenant a'],
    ['the release of nobody', { app: 'vcluster', release: 'x' }, 'tenant a'],
  ])('%s', (_reason, labels, expected) => {
    expect(owner(labels)).toBe(expected);
  });
});

describe('the control plane is billed as usage of its tenant', () => {
  test.each<readonly [reason: string, labels: OwnershipLabels]>([
    ['C15: control plane pod', { app: 'vcluster', release: 'a' }],
    ['the specified label', { app: 'tenant-cluster', release: 'a' }],
    ['C17: etcd', { app: 'vcluster-etcd', release: 'a' }],
    ['legacy API server', { app: 'vcluster-api', release: 'a' }],
    ['legacy controller', { app: 'vcluster-controller', release: 'a' }],
    ['L05: control plane Service', { app: 'vcluster', release: 'a' }],
  ])('%s', (_reason, labels) => {
    expect(owner(labels)).toBe('control-plane a');
    expect(owner(labels, shared)).toBe('control-plane a');
  });
});

describe('in a shared namespace every tenant cluster is billed for everything', () => {
  test.each<readonly [reason: string, labels: OwnershipLabels, expected: string]>([
    ['G35: managed-by splits', { managedBy: 'b' }, 'tenant b'],
    ['L06: so for load balancers', { managedBy: 'a' }, 'tenant a'],
    ['nobody’s object', {}, 'unattributed'],
    ['one of a tenant cluster that is not known', { managedBy: 'c' }, 'unattributed'],
    ['app without release', { app: 'vcluster' }, 'unattributed'],
  ])('%s', (_reason, labels, expected) => {
    expect(owner(labels, shared)).toBe(expected);
  });

  test('alone in its namespace, a tenant cluster owns what carries no label', () => {
    expect(owner({})).toBe('tenant a');
    expect(owner({ managedBy: 'c' })).toBe('unattributed');
  });

  test.each<readonly [reason: string, labels: OwnershipLabels]>([
    ['without labels, as it is imported', {}],
    ['that names another', { managedBy: 'b' }],
    ['labelled like the control plane', { app: 'vcluster', release: 'a' }],
    ['labelled like a helper of the control plane', { app: 'vcluster-snapshot' }],
  ])('C29: in a namespace that its syncer maps all is its own: what is %s', (_reason, labels) => {
    expect(owner(labels, alone, 'team-1')).toBe('tenant a');
  });

  test('a namespace without tenant clusters', () => {
    expect(owner({ app: 'vcluster', release: 'a' }, [])).toBe('unattributed');
  });
});
