import { expect, test } from 'vitest';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import { cluster } from '../metering/meters/testing/objects.ts';
import { TenantClusterTimelines } from '../metering/timelines/tenant-cluster-timeline.ts';
import { FINAL_REASONS } from '../metering/windows/gaps.ts';
import { openGaps } from './open-gaps.ts';

const gap = (scope: string, source = 'pods', to = 1_000) => ({
  source,
  scope,
  from: 0,
  to,
  reason: 'cannot be read',
});

/** What is known after discovery rounds at the times 0, 1, 2 and so on. */
function seen(...rounds: (readonly TenantCluster[])[]) {
  const timelines = new TenantClusterTimelines();
  for (const [at, clusters] of rounds.entries()) timelines.observe(clusters, at);
  return timelines;
}

const GONE: TenantCluster = {
  ...cluster('gone'),
  id: 'tenant-other-gone',
  namespace: 'other',
  tenant: 'mallory',
};

test('a tenant is offboarded while a failed watch still hides its last usage', () => {
  expect(openGaps([gap('pods')], seen([]), 500)('acme')).toBe(true);
});

test('a gap that nothing can fill keeps a tenant subscribed for ever', () => {
  const never = [
    gap('pods', 'metrics'),
    gap('pods', 'pods', 400),
    gap('tenant-of-old', 'collector'),
    gap('*', 'resourceslices'),
    gap('tenant-of-old', 'private-nodes'),
    ...[...FINAL_REASONS].map((reason) => ({ ...gap('pods'), reason })),
  ];
  for (const each of never) expect(openGaps([each], seen([]), 500)('acme')).toBe(false);
});

test('a gap of one tenant cluster keeps another tenant subscribed', () => {
  const [own, other] = [cluster('a'), { ...cluster('b'), namespace: 'b' }];
  const has = openGaps([gap(own.id)], seen([own, other]), 500);
  expect(has(own.tenant)).toBe(true);
  expect(has(other.tenant)).toBe(false);
});

test('a tenant cluster that is gone keeps others subscribed by its gaps', () => {
  for (const source of ['pods', 'tenant-api', 'prometheus']) {
    const has = openGaps([gap(GONE.id, source)], seen([GONE, cluster('a')], [cluster('a')]), 500);
    expect(has('mallory')).toBe(true);
    expect(has(cluster('a').tenant)).toBe(false);
  }
});

test('a tenant that a tenant cluster was billed to before is offboarded without its last usage', () => {
  const before = { ...GONE, tenant: 'before' };
  const has = openGaps([gap(GONE.id, 'tenant-api')], seen([before], [GONE], []), 500);
  expect(has('before')).toBe(true);
  expect(has('mallory')).toBe(true);
  expect(has('acme')).toBe(false);
});

test('a gap of a namespace names one of two tenant clusters, and the other is offboarded', () => {
  const neighbour = { ...GONE, id: 'tenant-other-b', name: 'b', tenant: 'neighbour' };
  const both = seen([GONE, neighbour]);
  expect(openGaps([gap(GONE.id, 'pods')], both, 500)('neighbour')).toBe(true);
  expect(openGaps([gap(GONE.id, 'tenant-api')], both, 500)('neighbour')).toBe(false);
});

test('a gap of a tenant cluster that nobody knows any more is taken for nobody’s', () => {
  expect(openGaps([gap('tenant-of-old')], seen([cluster('a')]), 500)('acme')).toBe(true);
});
