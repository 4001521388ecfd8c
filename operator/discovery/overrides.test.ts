import { describe, expect, test } from 'vitest';
import type { TenantOverrideSettings } from '../settings/settings.ts';
import { discoverHost } from './testing/host.ts';
import { namespaceObject, workload } from './testing/objects.ts';

const workloads = [
  workload('tenant-a', 'a', { labels: { team: 'red', tier: 'gold' } }),
  workload('tenant-b', 'b', { labels: { team: 'blue' } }),
];
const namespaces = [
  namespaceObject('tenant-a', { labels: { team: 'overruled', region: 'north' } }),
  namespaceObject('tenant-b', { labels: { 'meterfeed.io/tenant': 'label' } }),
];

/** Their selectors match labels of workloads too. */
const environment = { 'spec.discovery.trustWorkloadMetadata': 'true' };

type Says = Partial<TenantOverrideSettings>;

function byName(
  name: string,
  namespace: string,
  cluster: string,
  says: Says,
): TenantOverrideSettings {
  return { name, createdAt: 1, match: { kind: 'cluster', namespace, name: cluster }, ...says };
}

function byLabels(
  name: string,
  matchLabels: Readonly<Record<string, string>>,
  says: Says,
): TenantOverrideSettings {
  return {
    name,
    createdAt: 1,
    match: { kind: 'labels', matchLabels, matchExpressions: [] },
    ...says,
  };
}

function discovered(...overrides: readonly TenantOverrideSettings[]) {
  const { clusters, overrides: uses } = discoverHost({
    workloads,
    namespaces,
    overrides,
    environment,
  });
  const [a, b] = clusters;
  return { a, b, uses: new Map(uses.map((use) => [use.name, use])) };
}

test('every field of an override takes effect, above the labels', () => {
  const { b } = discovered(
    byName('o', 'tenant-b', 'b', {
      tenant: 'acme',
      displayName: 'Acme',
      project: 'p',
      plan: 'gold',
      tenantClass: 'enterprise',
      exclude: true,
      enforcementExempt: true,
      billing: { taxId: 'DE123', address: { country: 'DE' } },
    }),
  );
  expect(b).toMatchObject({
    tenant: 'acme',
    displayName: 'Acme',
    project: 'p',
    plan: 'gold',
    tenantClass: 'enterprise',
    excluded: true,
    enforcementExempt: true,
    billing: { taxId: 'DE123', address: { country: 'DE' } },
    overrides: ['o'],
  });
});

test('CPU_MEMORY_BASIS and the like differ for one tenant cluster only', () => {
  const { a, b } = discovered(
    byName('o', 'tenant-a', 'a', { metering: { cpuMemoryBasis: 'requests', egressQuery: 'none' } }),
  );
  expect(a?.metering).toMatchObject({
    cpuMemoryBasis: 'requests',
    egressQuery: 'none',
    podLifetime: 'running',
  });
  expect(b?.metering.cpuMemoryBasis).toBe('usage');
  expect(Object.keys(b?.metering ?? {})).not.toContain('windowMs');
});

describe('of two overrides the wrong one holds', () => {
  test('a match by name beats one by labels, field by field', () => {
    const { a } = discovered(
      byLabels('labels', { team: 'red' }, { tenant: 'by-labels', plan: 'gold' }),
      byName('name', 'tenant-a', 'a', { createdAt: 9, tenant: 'by-name' }),
    );
    expect(a).toMatchObject({ tenant: 'by-name', plan: 'gold', overrides: ['name', 'labels'] });
  });

  test('of equal ones the older applies, and the younger is reported', () => {
    const { a, uses } = discovered(
      byName('younger', 'tenant-a', 'a', { createdAt: 2, tenant: 'y', plan: 'gold' }),
      byName('older', 'tenant-a', 'a', { createdAt: 1, tenant: 'o' }),
    );
    expect(a).toMatchObject({ tenant: 'o', overrides: ['older'] });
    expect(a).not.toMatchObject({ plan: expect.anything() });
    expect(uses.get('older')).toMatchObject({ applied: ['tenant-tenant-a-a'], conflicts: [] });
    expect(uses.get('younger')).toMatchObject({
      applied: [],
      conflicts: [{ cluster: 'tenant-tenant-a-a', overriddenBy: 'older' }],
    });
  });

  test('one that matches nothing is listed with nothing', () => {
    expect(discovered(byName('o', 'x', 'y', { tenant: 't' })).uses.get('o')).toStrictEqual({
      name: 'o',
      applied: [],
      conflicts: [],
    });
  });
});

describe('a selector matches other tenant clusters than Kubernetes would say', () => {
  test.each<readonly [string, TenantOverrideSettings['match'], readonly string[]]>([
    ['the workload’s label beats its Namespace’s', labels({ team: 'red' }), ['a']],
    ['a Namespace’s label counts', labels({ region: 'north' }), ['a']],
    ['all must hold', labels({ team: 'red', region: 'south' }), []],
    ['an empty selector matches nothing', labels({}), []],
    ['In', expression('team', 'In', ['red', 'green']), ['a']],
    ['NotIn, also where absent', expression('tier', 'NotIn', ['silver']), ['a', 'b']],
    ['NotIn, where it is', expression('tier', 'NotIn', ['gold']), ['b']],
    ['Exists', expression('tier', 'Exists'), ['a']],
    ['DoesNotExist', expression('tier', 'DoesNotExist'), ['b']],
  ])('%s', (_reason, match, names) => {
    const { uses } = discovered({ name: 'o', createdAt: 1, match, tenant: 't' });
    const ids = names.map((name) => `tenant-tenant-${name}-${name}`);
    expect(uses.get('o')?.applied).toStrictEqual(ids);
  });

  function labels(matchLabels: Readonly<Record<string, string>>) {
    return { kind: 'labels', matchLabels, matchExpressions: [] } as const;
  }

  function expression(
    key: string,
    operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist',
    values: readonly string[] = [],
  ) {
    return {
      kind: 'labels',
      matchLabels: {},
      matchExpressions: [{ key, operator, values }],
    } as const;
  }
});
