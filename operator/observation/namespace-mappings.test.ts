import { describe, expect, test } from 'vitest';
import { cluster } from '../metering/testing/objects.ts';
import {
  createTenantClusterTimelines,
  type TenantClusterTimelines,
} from './tenant-cluster-timeline.ts';

const TEAM = { uid: 'uid-team', namespace: '', name: 'team-1' };
const mapped = (name = 'a') =>
  cluster(name, {}, { syncedNamespaces: [{ name: TEAM.name, createdAt: -5_000 }] });
/** Both are there, and the first has the namespace or neither has it. */
const [before, after] = [
  [mapped('a'), cluster('b')],
  [cluster('a'), cluster('b')],
];

/** When the namespace was whose. */
function tenanciesOf(timelines: TenantClusterTimelines): readonly unknown[] {
  return timelines
    .tenancies(TEAM.name, 0, 1_000)
    .map(({ from, to, clusters }) => [from, to, ...clusters.map(({ name }) => name)]);
}

function mappedUntil(lastAt: number): TenantClusterTimelines {
  const timelines = createTenantClusterTimelines();
  timelines.observe(before, 100);
  timelines.observe(before, lastAt);
  return timelines;
}

/** As a list tells it that had to begin anew, and as a resumed watch does. */
const ARRIVALS = [
  ['a list', { at: 500, knownUntil: 230, late: true }],
  [
    'a resumed watch',
    { at: 500, knownUntil: 500, late: false, happened: { from: 230, until: 240 } },
  ],
] as const;

describe('a namespace that a syncer does not map any more', () => {
  test('is its tenant cluster’s until the round that finds it, where a live watch tells it', () => {
    const timelines = mappedUntil(200);
    timelines.namespaces.upserted(TEAM, TEAM, { at: 500, knownUntil: 499, late: false });
    timelines.observe(after, 501);
    expect(tenanciesOf(timelines)).toEqual([[100, 501, 'a']]);
  });

  test.each(ARRIVALS)(
    'is so no longer than it is known to have been, where %s tells what nobody saw',
    (_, arrival) => {
      const timelines = mappedUntil(200);
      timelines.namespaces.upserted(TEAM, TEAM, arrival);
      timelines.observe(after, 501);
      expect(tenanciesOf(timelines)).toEqual([[100, 230, 'a']]);
    },
  );

  test.each(ARRIVALS)(
    'is so no longer where the Namespace itself is gone, as %s tells',
    (_, arrival) => {
      const timelines = mappedUntil(200);
      timelines.namespaces.deleted(TEAM, arrival);
      timelines.observe(after, 501);
      expect(tenanciesOf(timelines)).toEqual([[100, 230, 'a']]);
    },
  );

  test('was so at the last round at the least, whatever the watch says', () => {
    const timelines = mappedUntil(400);
    timelines.namespaces.upserted(TEAM, TEAM, { at: 500, knownUntil: 0, late: true });
    timelines.observe(after, 501);
    expect(tenanciesOf(timelines)).toEqual([[100, 400, 'a']]);
  });

  test('is so no longer than the last round before a restart', () => {
    const timelines = createTenantClusterTimelines();
    timelines.restore(mappedUntil(200).snapshot(), 200);
    timelines.observe(after, 501);
    expect(tenanciesOf(timelines)).toEqual([[100, 200, 'a']]);
  });

  test('is nobody’s between two tenant clusters, where nobody saw it move', () => {
    const timelines = mappedUntil(200);
    timelines.namespaces.upserted(TEAM, TEAM, { at: 500, knownUntil: 230, late: true });
    timelines.observe([cluster('a'), mapped('b')], 501);
    expect(tenanciesOf(timelines)).toEqual([
      [100, 230, 'a'],
      [501, 1_000, 'b'],
    ]);
  });

  test('and whose loss was seen is not dated by an earlier outage', () => {
    const timelines = mappedUntil(200);
    timelines.namespaces.upserted(TEAM, TEAM, { at: 300, knownUntil: 230, late: true });
    timelines.observe(before, 301);
    timelines.namespaces.upserted(TEAM, TEAM, { at: 500, knownUntil: 499, late: false });
    timelines.observe(after, 501);
    expect(tenanciesOf(timelines)).toEqual([[100, 501, 'a']]);
  });

  test('goes on as it was where an outage changed nothing of it', () => {
    const timelines = createTenantClusterTimelines();
    timelines.restore(mappedUntil(200).snapshot(), 200);
    timelines.namespaces.upserted(TEAM, TEAM, { at: 500, knownUntil: 0, late: true });
    timelines.observe(before, 501);
    expect(tenanciesOf(timelines)).toEqual([[100, 1_000, 'a']]);
  });
});
