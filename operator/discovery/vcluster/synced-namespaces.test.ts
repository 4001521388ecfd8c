import { describe, expect, test } from 'vitest';
import { discoverHost, type Host } from '../testing/host.ts';
import { namespaceObject, workload } from '../testing/objects.ts';

/** A Namespace as a syncer writes it for a tenant cluster. */
function mapped(name: string, of: readonly [namespace: string, name: string], more = {}) {
  const [namespace, cluster] = of;
  return namespaceObject(name, {
    labels: {
      'vcluster.loft.sh/vcluster-namespace': namespace,
      'vcluster.loft.sh/vcluster-name': cluster,
      ...more,
    },
  });
}

const A = ['tenant-a', 'a'] as const;
const WORKLOADS = [workload('tenant-a', 'a'), workload('tenant-b', 'b')];

/** The synced namespaces of each tenant cluster that has any, by id. */
function syncedOf(host: Host): Readonly<Record<string, readonly string[]>> {
  const { clusters } = discoverHost({ workloads: WORKLOADS, ...host });
  return Object.fromEntries(
    clusters.flatMap(({ id, syncedNamespaces }) =>
      syncedNamespaces === undefined ? [] : [[id, syncedNamespaces.map(({ name }) => name)]],
    ),
  );
}

function problemsOf(host: Host): readonly string[] {
  return discoverHost({ workloads: WORKLOADS, ...host }).problems;
}

test('I13: what a syncer maps to namespaces of their own is nobody’s', () => {
  const marker = { 'vcluster.loft.sh/managed-by': 'tenant-a-x-a' };
  const namespaces = [mapped('team-2', A), mapped('team-1', A, marker), namespaceObject('plain')];
  expect(syncedOf({ namespaces })).toEqual({ 'tenant-tenant-a-a': ['team-1', 'team-2'] });
  expect(problemsOf({ namespaces })).toEqual([]);
});

test('the namespace of the control plane says nothing new of itself', () => {
  const namespaces = [mapped('tenant-a', A)];
  expect(syncedOf({ namespaces })).toEqual({});
  expect(problemsOf({ namespaces })).toEqual([]);
});

describe('I14: a namespace is refused with the reason, and is nobody’s', () => {
  test.each<readonly [reason: string, namespace: ReturnType<typeof mapped>, problem: string]>([
    [
      'that holds another’s control plane',
      mapped('tenant-b', A),
      'Namespace tenant-b: labels name tenant cluster "tenant-a/a": refused, because it contains the control plane of tenant-b/b; remove the labels vcluster.loft.sh/vcluster-name and vcluster.loft.sh/vcluster-namespace',
    ],
    [
      'that is Kubernetes’ own',
      mapped('kube-system', A),
      'Namespace kube-system: labels name tenant cluster "tenant-a/a": refused for a system namespace; remove the labels vcluster.loft.sh/vcluster-name and vcluster.loft.sh/vcluster-namespace',
    ],
    [
      'that the operator runs in',
      mapped('meterfeed-system', A),
      'Namespace meterfeed-system: labels name tenant cluster "tenant-a/a": refused for a system namespace; remove the labels vcluster.loft.sh/vcluster-name and vcluster.loft.sh/vcluster-namespace',
    ],
    [
      'that two tenant clusters claim',
      mapped('team-1', A, { 'vcluster.loft.sh/managed-by': 'tenant-b-x-b' }),
      'Namespace team-1: labels name tenant cluster "tenant-a/a", and vcluster.loft.sh/managed-by names tenant-b/b: refused for both; remove the labels of one',
    ],
    [
      'whose tenant cluster is not there',
      mapped('team-1', ['tenant-a', 'gone']),
      'Namespace team-1: labels name tenant cluster "tenant-a/gone", and there is none: what is created in it is billed to nobody; delete it, or correct the labels',
    ],
    [
      'with one label of the two',
      namespaceObject('team-1', { labels: { 'vcluster.loft.sh/vcluster-name': 'a' } }),
      'Namespace team-1: label vcluster.loft.sh/vcluster-namespace: missing; a syncer sets it and vcluster.loft.sh/vcluster-name together',
    ],
  ])('%s', (_reason, namespace, problem) => {
    const host = { namespaces: [namespace] };
    expect(syncedOf(host)).toEqual({});
    expect(problemsOf(host)).toEqual([problem]);
  });
});

test('I17: a namespace outside of WATCH_NAMESPACES is reported, for nothing in it can be billed', () => {
  const environment = { WATCH_NAMESPACES: 'tenant-a,team-1' };
  const namespaces = [mapped('team-1', A), mapped('team-2', A), mapped('b-1', ['tenant-b', 'b'])];
  expect(problemsOf({ environment, namespaces })).toEqual([
    'Namespace team-2: belongs to tenant cluster tenant-a/a, but is not one of WATCH_NAMESPACES: nothing in it is billed; add "team-2"',
  ]);
});

test('objects in a namespace that is refused are passed over, or those of Kubernetes’ own are listed', () => {
  const namespaces = [
    mapped('kube-system', A),
    mapped('meterfeed-system', A),
    mapped('team-1', ['tenant-a', 'gone']),
    mapped('team-2', A),
  ];
  const { refusedNamespaces } = discoverHost({ workloads: WORKLOADS, namespaces });
  expect([...refusedNamespaces]).toEqual(['team-1']);
});
