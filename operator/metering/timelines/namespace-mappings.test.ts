import { describe, expect, test } from 'vitest';
import type { HostNamespace } from '../../discovery/views.ts';
import type { Arrival } from '../../kubernetes/source.ts';
import { cluster } from '../meters/testing/objects.ts';
import { decodeTimeline, encodeTimeline } from './journal-text.ts';
import {
  followNamespace,
  type HostNamespaces,
  namespaceHandler,
  type NamespaceState,
} from './host-namespace.ts';
import { TenantClusterTimelines } from './tenant-cluster-timeline.ts';
import { Timelines } from './timelines.ts';

const TEAM = { uid: 'uid-team', namespace: '', name: 'team-1' };
const team = (owner?: string, more: Partial<HostNamespace> = {}): HostNamespace => {
  const labels: Record<string, string> =
    owner === undefined ? {} : { 'vcluster.loft.sh/vcluster-name': owner };
  return { ...TEAM, createdAt: -5_000, metadata: { labels, annotations: {} }, ...more };
};
const mapped = (name = 'a', createdAt = -5_000) =>
  cluster(name, {}, { syncedNamespaces: [{ name: TEAM.name, createdAt }] });
/** Both tenant clusters exist; the namespace belongs to the first one or to neither. */
const [before, after] = [
  [mapped('a'), cluster('b')],
  [cluster('a'), cluster('b')],
];
const soldToB = [cluster('a'), mapped('b')];

/** The owner of the namespace, and the reports of the watch of Namespaces. */
interface World {
  readonly timelines: TenantClusterTimelines;
  readonly namespaces: HostNamespaces;
  reported(next: HostNamespace, arrival: Arrival): void;
  gone(last: HostNamespace, arrival: Arrival): void;
}

function createWorld(): World {
  const namespaces = new Timelines({ kind: 'namespace', follow: followNamespace });
  const handler = namespaceHandler(namespaces);
  return {
    timelines: new TenantClusterTimelines(namespaces),
    namespaces,
    reported: (next, arrival) => handler.upserted(next, undefined, arrival),
    gone: (last, arrival) => handler.deleted(last, arrival),
  };
}

const live = (at: number): Arrival => ({ at, knownUntil: at - 1, late: false });

/** The owners of the namespace over time, with their uncertainty. */
function tenanciesOf({ timelines }: World): readonly unknown[] {
  return timelines
    .tenancies(TEAM.name, 0, 1_000)
    .map(({ from, to, clusters }) => [from, to, ...clusters.map(({ name }) => name)]);
}

function uncertainOf({ timelines }: World): readonly unknown[] {
  return timelines
    .tenancies(TEAM.name, 0, 1_000)
    .map(({ uncertainFrom = 0, uncertainTo = 0 }) => [uncertainFrom, uncertainTo]);
}

function mappedUntil(lastAt: number): World {
  const world = createWorld();
  world.reported(team('a'), live(99));
  world.timelines.observe(before, 100);
  world.timelines.observe(before, lastAt);
  return world;
}

/** The same after a restart from the journal. */
function restarted(old: World, isJournalled = true): World {
  const world = createWorld();
  const { timelines, namespaces } = old;
  world.timelines.restore(JSON.parse(JSON.stringify(timelines.snapshot())), timelines.observedAt);
  const stored = namespaces.unwritten
    .drain()
    .changed.map((each) => decodeTimeline<HostNamespace, NamespaceState>(encodeTimeline(each)))
    .filter((each) => each !== undefined);
  if (isJournalled) world.namespaces.restore(stored, 0);
  return world;
}

/** Arrivals as by a new list, and as by a resumed watch. */
const ARRIVALS = [
  ['a list', { at: 500, knownUntil: 230, late: true }, 270],
  [
    'a resumed watch',
    { at: 500, knownUntil: 500, late: false, happened: { from: 230, until: 240 } },
    10,
  ],
] as const;

describe('a namespace that a syncer does not map any more', () => {
  test('is its tenant cluster’s until a live watch reports the change, not until the next discovery pass', () => {
    const world = mappedUntil(200);
    world.reported(team(), live(500));
    world.timelines.observe(after, 501);
    expect(tenanciesOf(world)).toEqual([[100, 500, 'a']]);
    expect(uncertainOf(world)).toEqual([[0, 0]]);
  });

  test('is so until the discovery pass, where the metadata of the Namespace has not changed', () => {
    const world = mappedUntil(200);
    world.timelines.observe(after, 501);
    expect(tenanciesOf(world)).toEqual([[100, 501, 'a']]);
  });

  test.each(ARRIVALS)(
    'ends when it was last known, where %s reports an unobserved change',
    (_, arrival, width) => {
      const world = mappedUntil(200);
      world.reported(team(), arrival);
      world.timelines.observe(after, 501);
      expect(tenanciesOf(world)).toEqual([[100, 230, 'a']]);
      expect(uncertainOf(world)).toEqual([[0, width]]);
    },
  );

  test('ends where a list shows that the Namespace itself is gone', () => {
    const world = mappedUntil(200);
    world.gone(team('a'), { at: 500, knownUntil: 230, late: true });
    world.timelines.observe(after, 501);
    expect(tenanciesOf(world)).toEqual([[100, 230, 'a']]);
  });

  test('ends when a watch reports that it is gone: what was in it went before', () => {
    const world = mappedUntil(200);
    world.gone(team('a'), ARRIVALS[1][1]);
    world.timelines.observe(after, 501);
    expect(tenanciesOf(world)).toEqual([[100, 500, 'a']]);
  });

  test('is so no longer than another one of its name is there', () => {
    const world = mappedUntil(200);
    world.gone(team('a'), { ...ARRIVALS[1][1], at: 490 });
    const next = team(undefined, { uid: 'another', createdAt: 300 });
    const happened = { from: 310, until: 320 };
    world.reported(next, { at: 500, knownUntil: 500, late: false, happened });
    world.timelines.observe(after, 501);
    expect(tenanciesOf(world)).toEqual([[100, 310, 'a']]);
  });

  test('was so at least until the last discovery pass, whatever the watch reports', () => {
    const world = mappedUntil(400);
    world.reported(team(), { at: 500, knownUntil: 0, late: true });
    world.timelines.observe(after, 501);
    expect(tenanciesOf(world)).toEqual([[100, 400, 'a']]);
    expect(uncertainOf(world)).toEqual([[0, 100]]);
  });

  test('is billed up to the last discovery pass where it was known for less long, and has its uncertainty', () => {
    const world = restarted(mappedUntil(400));
    world.reported(team(), ARRIVALS[0][1]);
    world.timelines.observe(after, 501);
    expect(tenanciesOf(world)).toEqual([[100, 400, 'a']]);
    expect(uncertainOf(world)).toEqual([[0, 100]]);
  });

  test('or is gone, has its uncertainty as well', () => {
    const world = restarted(mappedUntil(400));
    world.gone(team('a'), ARRIVALS[0][1]);
    world.timelines.observe(after, 501);
    expect(tenanciesOf(world)).toEqual([[100, 400, 'a']]);
    expect(uncertainOf(world)).toEqual([[0, 100]]);
  });

  test('ends at the last discovery pass before a restart without a record of Namespaces', () => {
    const world = restarted(mappedUntil(200), false);
    world.reported(team(), { at: 500, knownUntil: 0, late: true });
    world.timelines.observe(after, 501);
    expect(tenanciesOf(world)).toEqual([[100, 200, 'a']]);
  });

  test('lasts as long as it is known to have been, where that was after the last discovery pass before a restart', () => {
    const world = restarted(mappedUntil(200));
    world.reported(team(), ARRIVALS[1][1]);
    world.timelines.observe(after, 501);
    expect(tenanciesOf(world)).toEqual([[100, 230, 'a']]);
    expect(uncertainOf(world)).toEqual([[0, 10]]);
  });

  test('and whose loss was seen is not dated by an earlier outage', () => {
    const world = mappedUntil(200);
    world.reported(team('a'), { at: 300, knownUntil: 230, late: true });
    world.timelines.observe(before, 301);
    world.reported(team(), live(500));
    world.timelines.observe(after, 501);
    expect(tenanciesOf(world)).toEqual([[100, 500, 'a']]);
  });

  test('goes on as it was where an outage changed nothing of it', () => {
    const world = restarted(mappedUntil(200));
    world.reported(team('a'), { at: 500, knownUntil: 0, late: true });
    world.timelines.observe(before, 501);
    expect(tenanciesOf(world)).toEqual([[100, 1_000, 'a']]);
  });
});

describe('a namespace that the watch reports only after a discovery pass', () => {
  const [created, lastAt, at] = [7_000, 10_000, 11_000];
  const born = team('b', { createdAt: created });
  const found = [cluster('a'), mapped('b', created)];
  const looked = (): World => {
    const world = createWorld();
    world.timelines.observe(after, 100);
    world.timelines.observe(after, lastAt);
    return world;
  };
  const begins = ({ timelines }: World) =>
    timelines.tenancies(TEAM.name, 0, 90_000).map(({ from }) => from);

  test.each([
    ['while it lives', live(10_500)],
    [
      'when it goes on',
      { at: 10_500, knownUntil: 10_500, late: false, happened: { from: 7_100, until: 7_200 } },
    ],
    ['in a list', { at: 10_500, knownUntil: 6_000, late: true }],
  ])('is nobody’s until then, where the watch shows it %s', (_, arrival) => {
    const world = looked();
    world.reported(born, arrival);
    world.timelines.observe(found, at);
    expect(begins(world)).toEqual([created]);
  });

  test('is nobody’s where it is gone again before a discovery pass', () => {
    const world = looked();
    world.reported(born, live(10_500));
    world.gone(born, live(10_900));
    world.timelines.observe(found, at);
    expect(begins(world)).toEqual([created]);
  });

  test('is its tenant cluster’s before it was labelled, where it is gone again before a discovery pass', () => {
    const world = looked();
    world.reported(team(undefined, { createdAt: created }), live(7_001));
    world.reported(born, live(10_500));
    world.gone(born, live(10_900));
    world.timelines.observe(found, at);
    expect(begins(world)).toEqual([10_500]);
  });

  test('is its own also where a minute ago, and more, it was created', () => {
    const world = looked();
    const early = { createdAt: -60_000 };
    world.reported(team('b', early), live(10_500));
    world.timelines.observe([cluster('a'), mapped('b', early.createdAt)], at);
    expect(begins(world)).toEqual([10_500]);
  });

  test('does not take what a discovery pass found to be that of another one of its name', () => {
    const world = createWorld();
    world.reported(team('a'), live(99));
    world.timelines.observe(before, 100);
    world.timelines.observe(before, lastAt);
    world.gone(team('a'), live(10_400));
    world.reported(team('b', { uid: 'another', createdAt: created }), live(10_500));
    world.timelines.observe(found, at);
    const whose = world.timelines.tenancies(TEAM.name, 0, 90_000);
    expect(whose.map(({ from, to }) => [from, to])).toEqual([
      [100, 10_400],
      [10_500, 90_000],
    ]);
  });
});

describe('a namespace that changes hands unobserved', () => {
  test('is nobody’s between two tenant clusters, where nobody saw it move', () => {
    const world = mappedUntil(200);
    world.reported(team('b'), { at: 500, knownUntil: 230, late: true });
    world.timelines.observe(soldToB, 501);
    expect(tenanciesOf(world)).toEqual([
      [100, 230, 'a'],
      [500, 1_000, 'b'],
    ]);
  });

  test('is the second one’s as of when it certainly was, where a watch goes on after a stop', () => {
    const world = restarted(mappedUntil(200));
    world.reported(team('b'), ARRIVALS[1][1]);
    world.timelines.observe(soldToB, 501);
    expect(tenanciesOf(world)).toEqual([
      [100, 230, 'a'],
      [240, 1_000, 'b'],
    ]);
    expect(uncertainOf(world)).toEqual([
      [0, 10],
      [10, 0],
    ]);
  });

  test('and is labelled for the first time is so as well', () => {
    const world = createWorld();
    world.reported(team(), live(99));
    world.timelines.observe(after, 200);
    const next = restarted(world);
    next.reported(team('b'), ARRIVALS[1][1]);
    next.timelines.observe(soldToB, 501);
    expect(tenanciesOf(next)).toEqual([[240, 1_000, 'b']]);
    expect(uncertainOf(next)).toEqual([[10, 0]]);
  });

  test('and was created just before is so as well, and not since its creation', () => {
    const world = createWorld();
    world.reported(team(undefined, { createdAt: 150 }), live(180));
    world.timelines.observe(after, 200);
    const next = restarted(world);
    next.reported(team('b', { createdAt: 150 }), ARRIVALS[1][1]);
    next.timelines.observe([cluster('a'), mapped('b', 150)], 501);
    expect(tenanciesOf(next)).toEqual([[240, 1_000, 'b']]);
  });

  test('or is created is its tenant cluster’s since its creation', () => {
    const world = createWorld();
    world.timelines.observe(after, 200);
    const next = restarted(world);
    next.reported(team('b', { createdAt: 2_000 }), {
      at: 5_000,
      knownUntil: 5_000,
      late: false,
      happened: { from: 2_500, until: 2_800 },
    });
    next.timelines.observe([cluster('a'), mapped('b', 2_000)], 5_001);
    const [tenancy] = next.timelines.tenancies(TEAM.name, 0, 9_000);
    expect(tenancy?.from).toBe(2_000);
  });
});
