import { expect, test } from 'vitest';
import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import { billedSplit, chargeIdentity, namespaceSplit } from './charge-identity.ts';
import { cluster } from './testing/objects.ts';
import { HOUR } from './testing/times.ts';

const SETTINGS = {
  region: 'default',
  regionFromNode: false,
  sampleValidMs: HOUR,
  gpuResources: [],
  draGpuDrivers: [],
};
const LABELS = { virtualNamespace: 'ml', queue: 'q' };

test.each<[string, Partial<TenantCluster>, Readonly<Record<string, string>>]>([
  ['of vCluster', {}, { namespace: 'ml' }],
  ['with an API of its own', { source: 'external' }, { namespace: 'ml' }],
  ['of another kind, on the host', { source: 'k3k' }, {}],
  [
    'of another kind, with private nodes',
    { source: 'k3k', nodeMode: 'private' },
    { namespace: 'ml' },
  ],
  ['of another kind, whose nodes are the host’s', { source: 'k3k', nodeMode: 'shared' }, {}],
  ['that is namespaces', { source: 'namespaces' }, {}],
])('anybody who may write labels splits the usage of a tenant cluster %s', (_, more, namespace) => {
  const byNamespace = cluster('a', { meterByNamespace: true }, more);
  expect(namespaceSplit(byNamespace, LABELS).dimensions).toStrictEqual(namespace);
  expect(billedSplit(byNamespace, LABELS).dimensions).toStrictEqual(namespace);
  const byQueue = cluster('a', { meterByQueue: true }, more);
  expect(billedSplit(byQueue, LABELS).dimensions).toStrictEqual({ queue: 'q' });
  const byNone = cluster('a', {}, more);
  expect(billedSplit(byNone, LABELS)).toStrictEqual({ key: '', dimensions: {} });
  expect(namespaceSplit(cluster('a', { meterByNamespace: true }, more), {}).key).toBe('');
});

test('two splits are one charge, or one split is two', () => {
  const both = cluster('a', { meterByNamespace: true, meterByQueue: true });
  const keyOf = (virtualNamespace?: string, queue?: string) =>
    billedSplit(both, {
      virtualNamespace,
      queue,
    }).key;
  const keys = [
    keyOf('x', 'y'),
    keyOf('y', 'x'),
    keyOf('x'),
    keyOf(undefined, 'x'),
    keyOf('xy'),
    keyOf(),
  ];
  expect(new Set(keys).size).toBe(keys.length);
  expect(keyOf('x', 'y')).toBe(keys[0]);
  expect(namespaceSplit(both, LABELS).dimensions).toStrictEqual({ namespace: 'ml' });
});

test('a dimension names what nobody knows, or leaves out what is known', () => {
  const plain = chargeIdentity(cluster('a'), 'tenant_lb_hours', SETTINGS);
  expect(plain).toStrictEqual({
    tenant: 'tenant-tenant-a-a',
    metric: 'tenant_lb_hours',
    region: 'default',
    resource_id: 'tenant-tenant-a-a',
    dimensions: { tenant_cluster: 'tenant-tenant-a-a' },
  });
  const settings = { ...SETTINGS, zone: 'z', regionFromNode: true, defaultTenantClass: 'dev' };
  const known = cluster('a', {}, { project: 'p', tenantClass: 'gold' });
  const place = { capacityType: 'spot', zone: 'node-zone', region: 'node-region' } as const;
  const parts = { sku: 's', resourceId: 'n1', split: { key: 'k', dimensions: { queue: 'q' } } };
  expect(
    chargeIdentity(known, 'tenant_gpu_hours', settings, { ...parts, node: place }),
  ).toStrictEqual({
    tenant: 'tenant-tenant-a-a',
    metric: 'tenant_gpu_hours',
    region: 'node-region',
    resource_id: 'n1',
    project: 'p',
    sku: 's',
    dimensions: {
      tenant_cluster: 'tenant-tenant-a-a',
      tenant_class: 'gold',
      zone: 'node-zone',
      queue: 'q',
    },
  });
  const placeOf = (node: 'unknown' | undefined) => {
    const given = { node, dimensions: { extra: 'e' } };
    const { region, dimensions } = chargeIdentity(
      cluster('a'),
      'tenant_gpu_hours',
      settings,
      given,
    );
    return [region, dimensions];
  };
  const dimensions = { tenant_cluster: 'tenant-tenant-a-a', tenant_class: 'dev', extra: 'e' };
  expect(placeOf('unknown')).toStrictEqual(['default', { ...dimensions, zone: 'z' }]);
  expect(placeOf(undefined)).toStrictEqual(['default', dimensions]);
  const sameRegion = { ...settings, regionFromNode: false };
  expect(chargeIdentity(known, 'tenant_gpu_hours', sameRegion, { node: place }).region).toBe(
    'default',
  );
});
