import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Arrival, RawObject } from '../../kubernetes/source.ts';
import { claim, iso, LONG_AGO, NODE_SETTINGS, pod } from '../meters/testing/objects.ts';
import { START } from '../meters/testing/world.ts';
import { decodeTimeline, encodeTimeline } from './journal-text.ts';
import { createObservation, type Observation } from './observation.ts';
import { type PodState, type PodView, projectPod } from './pod.ts';
import { projectVolumeClaim } from './retained-objects.ts';
import { type Span, spansBefore, type Timeline } from './timeline.ts';

const at = (second: number): number => START + second * 1000;
const live = (second: number): Arrival => ({
  at: at(second),
  knownUntil: at(second),
  late: false,
});

let clamped = 0;

function observe(billedUntil = (present: number) => present): Observation {
  clamped = 0;
  const observation = createObservation({
    nodeSettings: () => NODE_SETTINGS,
    billedUntil,
    countClamped: () => {
      clamped += 1;
    },
  });
  observation.pods.listed(() => true, 0);
  return observation;
}

function view(object: RawObject): PodView {
  const projected = projectPod(object);
  if (projected === undefined) throw new Error('fixture without uid or name');
  return projected;
}

const pending = view(pod({ name: 'p', phase: 'Pending', startedAt: null, createdAt: at(0) }));
const running = view(pod({ name: 'p', createdAt: at(0), startedAt: at(7) }));
const finished = view(
  pod({ name: 'p', phase: 'Succeeded', createdAt: at(0), startedAt: at(7), finishedAt: at(14) }),
);

/** Seconds since START of the running spans. */
function runs(observation: Observation): [number, number][] {
  return [...observation.pods.inNamespace('tenant-a')]
    .flatMap((timeline) => timeline.spans)
    .filter((span) => span.state.phase === 'running')
    .map(({ from, to }) => [(from - START) / 1000, (to - START) / 1000]);
}

test('W37: a pod with a finish time is billed up to that, whatever the time of its report', () => {
  const observation = observe();
  observation.pods.upserted(running, undefined, live(9));
  // A false date puts the write of the version before its possible time.
  const happened = { from: at(11), until: at(11) };
  const arrival = { at: at(60), knownUntil: at(10), late: false, happened };
  observation.pods.upserted(finished, running, arrival);
  expect(runs(observation)).toEqual([[7, 14]]);
});

test('an object that is evaluated again, and was gone by then, is billed until it was last seen', () => {
  const observation = observe();
  observation.pods.upserted(running, undefined, live(9));
  observation.pods.refresh(at(60));
  observation.pods.deleted(running, { at: at(61), knownUntil: at(20), late: true });
  expect(runs(observation)).toEqual([[7, 20]]);
});

describe('a pod', () => {
  test('is billed for the seconds between its API times, however late they arrive', () => {
    const observation = observe();
    observation.pods.upserted(pending, undefined, live(1));
    observation.pods.upserted(running, pending, live(9));
    observation.pods.upserted(finished, running, live(20));
    observation.pods.deleted(finished, live(25));
    expect(runs(observation)).toEqual([[7, 14]]);
    expect(clamped).toBe(0);
  });

  test('that started and ended between two observations is billed all the same', () => {
    const observation = observe();
    observation.pods.upserted(finished, undefined, live(30));
    expect(runs(observation)).toEqual([[7, 14]]);
  });

  test('is not billed beyond the arrival of a finish that lies in the future', () => {
    const observation = observe();
    observation.pods.upserted(running, undefined, live(9));
    observation.pods.upserted(finished, running, live(12));
    expect(runs(observation)).toEqual([[7, 12]]);
    expect(clamped).toBe(1);
  });

  test('is not billed from a start long before the version that knew of none', () => {
    const observation = observe();
    observation.pods.upserted(pending, undefined, live(300));
    const forged = view(pod({ name: 'p', createdAt: at(0), startedAt: at(-3000) }));
    observation.pods.upserted(forged, pending, live(310));
    expect(runs(observation)).toEqual([[300, Infinity]]);
    expect(clamped).toBe(1);
  });

  test('that is removed while it runs ends when the deletion arrives', () => {
    const observation = observe();
    observation.pods.upserted(running, undefined, live(9));
    observation.pods.deleted(running, live(33));
    expect(runs(observation)).toEqual([[7, 33]]);
  });

  test('that is removed while it runs is billed only until its init container had finished', () => {
    const observation = observe();
    const terminated = { startedAt: iso(at(7)), finishedAt: iso(at(8)) };
    const initialised = view(
      pod({
        name: 'p',
        createdAt: at(0),
        startedAt: at(9),
        status: { initContainerStatuses: [{ name: 'i', state: { terminated } }] },
      }),
    );
    observation.pods.upserted(initialised, undefined, live(10));
    observation.pods.deleted(initialised, live(33));
    expect(runs(observation)).toEqual([[7, 33]]);
  });

  const container = (states: RawObject): RawObject => ({
    containerStatuses: [{ name: 'c0', ...states }],
  });
  const ran = (from: number, to: number): RawObject => ({
    terminated: { startedAt: iso(at(from)), finishedAt: iso(at(to)) },
  });
  const restarted = container({
    state: { running: { startedAt: iso(at(50)) } },
    lastState: ran(7, 30),
  });

  test('that is removed while it runs is billed only until it last crashed', () => {
    const observation = observe();
    const crashed = view(pod({ name: 'p', createdAt: at(0), status: restarted }));
    observation.pods.upserted(crashed, undefined, live(51));
    observation.pods.deleted(crashed, live(90));
    expect(runs(observation)).toEqual([[7, 90]]);
  });

  test('that was evicted while it waited for a restart is billed after its last finish', () => {
    const observation = observe();
    const waiting = container({ state: { waiting: {} }, lastState: ran(7, 30) });
    const evicted = pod({ name: 'p', phase: 'Failed', createdAt: at(0), status: waiting });
    observation.pods.upserted(view(evicted), undefined, live(60));
    expect(runs(observation)).toEqual([[7, 30]]);
  });

  test('whose containers have all ended is billed until a list lacks it', () => {
    const observation = observe();
    const ended = view(
      pod({ name: 'p', createdAt: at(0), status: container({ state: ran(7, 14) }) }),
    );
    observation.pods.upserted(ended, undefined, live(15));
    observation.pods.deleted(ended, { at: at(90), knownUntil: at(40), late: true });
    expect(runs(observation)).toEqual([[7, 14]]);
  });

  test('is billed from a start long before it was created', () => {
    const observation = observe();
    const forged = view(pod({ name: 'p', createdAt: at(0), startedAt: at(-3000) }));
    observation.pods.upserted(forged, undefined, live(10));
    expect(runs(observation)).toEqual([[0, Infinity]]);
    expect(clamped).toBe(1);
  });

  test('that waited long ago is forgotten while it runs', () => {
    const observation = observe();
    observation.pods.upserted(running, undefined, live(9));
    observation.pods.settle(at(3_600));
    expect(runs(observation)).toEqual([[7, Infinity]]);
  });

  test('that vanished unseen ends when it was last known to be there', () => {
    const observation = observe();
    observation.pods.upserted(running, undefined, live(9));
    observation.pods.deleted(running, { at: at(90), knownUntil: at(40), late: true });
    expect(runs(observation)).toEqual([[7, 40]]);
  });

  test('whose labels change is split there, without a hole', () => {
    const observation = observe();
    observation.pods.upserted(running, undefined, live(9));
    const relabelled = view(pod({ name: 'p', createdAt: at(0), startedAt: at(7), labels: {} }));
    observation.pods.upserted(relabelled, running, live(11));
    observation.pods.upserted(finished, relabelled, live(20));
    expect(runs(observation)).toEqual([
      [7, 11],
      [11, 14],
    ]);
  });

  test('that was restarted so often that the status forgot keeps its first start', () => {
    const observation = observe();
    observation.pods.upserted(running, undefined, live(9));
    const restarted = view(pod({ name: 'p', createdAt: at(0), startedAt: at(50) }));
    observation.pods.upserted(restarted, running, live(51));
    expect(runs(observation)).toEqual([[7, Infinity]]);
  });

  test('evicted without container states ends when the eviction arrives', () => {
    const observation = observe();
    observation.pods.upserted(running, undefined, live(9));
    const evicted = view(pod({ name: 'p', phase: 'Failed', createdAt: at(0), startedAt: null }));
    observation.pods.upserted(evicted, running, live(22));
    observation.pods.upserted(evicted, evicted, live(60));
    expect(runs(observation)).toEqual([[7, 22]]);
  });

  test('whose finish is not known yet to a kubelet that writes the epoch ends on arrival', () => {
    const observation = observe();
    observation.pods.upserted(running, undefined, live(9));
    const unknown = view(
      pod({ name: 'p', phase: 'Failed', createdAt: at(0), startedAt: at(7), finishedAt: 0 }),
    );
    observation.pods.upserted(unknown, running, live(22));
    expect(runs(observation)).toEqual([[7, 22]]);
  });
});

test('a volume that a list shows first is billed from the list on, and not from its creation', () => {
  const { volumes } = observe();
  const volume = projectVolumeClaim(claim({ name: 'v' }));
  if (volume === undefined) throw new Error('fixture without uid or name');
  volumes.upserted(volume, undefined, { at: at(600), knownUntil: 0, late: true });
  const [timeline] = volumes.inNamespace('tenant-a');
  expect(timeline?.spans.map(({ from, to }) => [from, to])).toEqual([[LONG_AGO, Infinity]]);
});

describe('late facts', () => {
  test('keep what was billed until the next window settles the difference', () => {
    const observation = observe();
    observation.pods.upserted(running, undefined, live(9));
    observation.pods.settle(at(60));
    observation.pods.upserted(finished, running, live(70));
    const [late] = observation.pods.late();
    expect(late?.billed?.map((span) => span.to)).toEqual([at(7), Infinity]);
    expect(runs(observation)).toEqual([[7, 14]]);
    observation.pods.settle(at(120));
    expect([...observation.pods.late()]).toEqual([]);
  });

  test('are none when the change lies in the window under way', () => {
    const observation = observe();
    observation.pods.upserted(running, undefined, live(9));
    observation.pods.settle(at(10));
    observation.pods.upserted(finished, running, live(20));
    expect([...observation.pods.late()]).toEqual([]);
  });

  test('are none of the objects of a first list whose past nobody knows', () => {
    const observation = createObservation({
      nodeSettings: () => NODE_SETTINGS,
      billedUntil: (present) => present,
    });
    observation.pods.settle(at(60));
    observation.pods.upserted(running, undefined, { at: at(61), knownUntil: 0, late: true });
    observation.pods.listed(() => true, 0);
    expect([...observation.pods.late()]).toEqual([]);
  });
});

describe('what a resumed watch reports', () => {
  /** An outage from 20 s on; all its changes arrive at 600 s. */
  const missed = (from = 20, until = 600): Arrival => ({
    at: at(600),
    knownUntil: at(20),
    late: false,
    happened: { from: at(from), until: at(until) },
  });

  test('W23: a pod that began and ended unobserved is billed between its own times', () => {
    const observation = observe();
    const began = view(pod({ name: 'p', createdAt: at(100), startedAt: at(101) }));
    const times = { createdAt: at(100), startedAt: at(101), finishedAt: at(300) };
    const ended = view(pod({ name: 'p', phase: 'Succeeded', ...times }));
    observation.pods.upserted(began, undefined, missed());
    observation.pods.upserted(ended, began, missed());
    observation.pods.deleted(ended, missed());
    expect(runs(observation)).toEqual([[101, 300]]);
    expect(clamped).toBe(0);
  });

  test('a pod that was removed by force is billed to the earliest moment at which it can have gone', () => {
    const observation = observe();
    observation.pods.upserted(running, undefined, live(9));
    observation.pods.deleted(running, missed(30, 32));
    expect(runs(observation)).toEqual([[7, 30]]);
    const [gone] = observation.pods.unwritten.drain().changed;
    expect(gone?.spans.at(-1)?.uncertainTo).toBe(2_000);
    expect(decodeTimeline(gone === undefined ? '' : encodeTimeline(gone))?.spans).toEqual(
      gone?.spans,
    );
  });

  test('a deletion does not come before the times of its object', () => {
    const observation = observe();
    const began = view(pod({ name: 'p', createdAt: at(100), startedAt: at(101) }));
    observation.pods.upserted(began, undefined, missed());
    observation.pods.deleted(began, missed());
    expect(runs(observation)).toEqual([]);
    const [timeline] = observation.pods.inNamespace('tenant-a');
    expect(timeline?.versionAt).toBe(at(101));
  });

  test('the namespace that changed loses nothing of a life, the tenant cluster that changed counts for nobody', () => {
    const labelled = (labels: Record<string, string>): PodView =>
      view(pod({ name: 'p', createdAt: at(0), startedAt: at(7), labels }));
    const before = { 'vcluster.loft.sh/managed-by': 'a', 'vcluster.loft.sh/namespace': 'one' };
    const within = { ...before, 'vcluster.loft.sh/namespace': 'two' };
    const beyond = { ...within, 'vcluster.loft.sh/managed-by': 'b' };
    const observation = observe();
    observation.pods.upserted(labelled(before), undefined, live(9));
    observation.pods.upserted(labelled(within), labelled(before), missed(30, 40));
    observation.pods.upserted(labelled(beyond), labelled(within), missed(50, 60));
    expect(runs(observation)).toEqual([
      [7, 30],
      [30, 50],
      [60, Infinity],
    ]);
  });

  test('a resize counts as the smaller of both while nobody knows when it was', () => {
    const observation = observe();
    const cores = (amount: string): PodView =>
      view(pod({ name: 'p', createdAt: at(0), startedAt: at(7), containers: [{ cpu: amount }] }));
    observation.pods.upserted(cores('2'), undefined, live(9));
    observation.pods.upserted(cores('4'), cores('2'), missed(30, 40));
    observation.pods.upserted(cores('1'), cores('4'), missed(50, 60));
    const [timeline] = observation.pods.inNamespace('tenant-a');
    const billed = timeline?.spans.filter(({ state }) => state.phase === 'running');
    expect(billed?.map(({ from, state }) => [from, state.requests.cpu / 10n ** 9n])).toEqual([
      [at(7), 2n],
      [at(40), 4n],
      [at(50), 1n],
    ]);
  });

  test('a GPU is free while nobody knows when the CPU beside it was resized', () => {
    const cores = (cpu: string): PodView => {
      const containers = [{ cpu, 'nvidia.com/gpu': '1' }];
      return view(pod({ name: 'p', createdAt: at(0), startedAt: at(7), containers }));
    };
    const observation = observe();
    observation.pods.upserted(cores('2'), undefined, live(9));
    observation.pods.upserted(cores('4'), cores('2'), missed(30, 40));
    const memory = { memory: '1Gi', cpu: '1', 'nvidia.com/gpu': '1' };
    const mixed = view(
      pod({ name: 'p', createdAt: at(0), startedAt: at(7), containers: [memory] }),
    );
    observation.pods.upserted(mixed, cores('4'), missed(50, 60));
    const [timeline] = observation.pods.inNamespace('tenant-a');
    const gpus = timeline?.spans.map(({ state }) => state.requests.extended.get('nvidia.com/gpu'));
    expect(new Set(gpus)).toEqual(new Set([1]));
  });

  test('a GPU that a claim begins to serve unobserved is billed by its request as well', () => {
    const gpus = (more: RawObject): PodView =>
      view(
        pod({
          name: 'p',
          createdAt: at(0),
          startedAt: at(7),
          containers: [{ 'nvidia.com/gpu': '1' }],
          ...more,
        }),
      );
    const mapped = { requestMappings: [{ resourceName: 'nvidia.com/gpu' }] };
    const claimed = gpus({ status: { extendedResourceClaimStatus: mapped } });
    const observation = observe();
    observation.pods.upserted(gpus({}), undefined, live(9));
    observation.pods.upserted(claimed, gpus({}), missed(30, 40));
    const [timeline] = observation.pods.inNamespace('tenant-a');
    const billed = timeline?.spans.filter(({ state }) => state.requests.extended.size > 0);
    expect(billed?.map(({ to }) => to)).toEqual([at(7), at(30)]);
  });
});

describe('the journal', () => {
  test('gives back a timeline as it was', () => {
    const observation = observe();
    observation.pods.upserted(running, undefined, live(9));
    const { changed } = observation.pods.unwritten.drain();
    const [timeline] = changed;
    if (timeline === undefined) throw new Error('nothing to journal');
    const restored = decodeTimeline<PodView, PodState>(encodeTimeline(timeline));
    expect(restored).toEqual(timeline);
    expect(observation.pods.unwritten.drain().changed).toEqual([]);
  });

  test('makes a restart bill a pod through as if nothing had happened', () => {
    const before = observe();
    before.pods.upserted(running, undefined, live(9));
    const { changed } = before.pods.unwritten.drain();
    const after = observe();
    const restored = changed.flatMap((timeline) => {
      const decoded = decodeTimeline<PodView, PodState>(encodeTimeline(timeline));
      return decoded === undefined ? [] : [decoded];
    });
    after.pods.restore(restored, at(60));
    after.pods.upserted(running, undefined, { at: at(100), knownUntil: at(50), late: true });
    expect(runs(after)).toEqual([[7, Infinity]]);
    expect([...after.pods.late()]).toEqual([]);
  });

  test('makes a finish that the first list shows no late fact: closed windows keep what they billed', () => {
    const before = observe();
    before.pods.upserted(running, undefined, live(9));
    const after = createObservation({
      nodeSettings: () => NODE_SETTINGS,
      billedUntil: (present) => present,
    });
    after.pods.restore(before.pods.unwritten.drain().changed, at(60));
    after.pods.upserted(finished, running, { at: at(100), knownUntil: at(60), late: true });
    const [late] = after.pods.late();
    expect(late?.billed?.at(-1)?.to).toBe(Infinity);
    expect(runs(after)).toEqual([[7, 14]]);
  });

  test('ends what vanished while nobody watched when it was last known to be there', () => {
    const before = observe();
    before.pods.upserted(running, undefined, live(9));
    const after = observe();
    after.pods.restore(before.pods.unwritten.drain().changed, at(20));
    after.pods.listed(() => false, at(30));
    expect(runs(after)).toEqual([[7, 30]]);
  });

  test('of what vanished while nobody watched it is known how much later that may have been', () => {
    const before = observe();
    before.pods.upserted(running, undefined, live(9));
    const after = observe();
    after.pods.restore(before.pods.unwritten.drain().changed, at(20));
    after.pods.listed(() => false, at(30), at(42));
    expect(runs(after)).toEqual([[7, 30]]);
    const [gone] = after.pods.unwritten.drain().changed;
    expect(gone?.spans.at(-1)?.uncertainTo).toBe(12_000);
  });

  test('what closed windows billed of one that vanished unseen is not taken back: they were closed with all of it seen', () => {
    const observation = observe();
    observation.pods.upserted(running, undefined, live(9));
    observation.pods.settle(at(60));
    // A watch that has just been resumed confirms less than the window that was closed by it.
    observation.pods.deleted(running, { at: at(70), knownUntil: at(40), late: true });
    expect(runs(observation)).toEqual([[7, 60]]);
    expect([...observation.pods.late()]).toEqual([]);

    const before = observe();
    before.pods.upserted(running, undefined, live(9));
    const after = observe();
    after.pods.restore(before.pods.unwritten.drain().changed, at(60));
    after.pods.listed(() => false, at(40));
    expect(runs(after)).toEqual([[7, 60]]);
    expect([...after.pods.late()]).toEqual([]);
  });

  test('that was carried once is carried again after a restart, because the journal still calls it late', () => {
    const before = observe();
    before.pods.settle(at(10));
    before.pods.upserted(running, undefined, live(12));
    // Written between windows, before late facts of closed windows are settled.
    const [owing] = before.pods.unwritten.drain().changed;
    expect(owing?.billed).toEqual([]);
    before.pods.settle(at(20));
    const [settled] = before.pods.unwritten.drain().changed;
    expect(settled?.uid).toBe('uid-p');

    const journal = settled && decodeTimeline<PodView, PodState>(encodeTimeline(settled));
    const after = observe();
    after.pods.restore(journal === undefined ? [] : [journal], at(20));
    expect([...after.pods.late()]).toEqual([]);
    expect(runs(after)).toEqual([[7, Infinity]]);
  });

  test('forgets on a restart what the next window owes for a closed one', () => {
    const before = observe();
    before.pods.upserted(running, undefined, live(9));
    before.pods.settle(at(60));
    before.pods.upserted(finished, running, live(70));
    const [owing] = before.pods.unwritten.drain().changed;
    const journal = owing && decodeTimeline<PodView, PodState>(encodeTimeline(owing));
    const after = observe();
    after.pods.restore(journal === undefined ? [] : [journal], at(60));
    const [late] = after.pods.late();
    expect(late?.billed?.at(-1)?.to).toBe(Infinity);
  });

  test('lacks what a write that failed had taken, though it is put back', () => {
    const { pods } = observe();
    pods.upserted(finished, undefined, live(20));
    pods.upserted(view(pod({ name: 'q', createdAt: at(150) })), undefined, live(150));
    pods.deleted(finished, live(25));
    pods.settle(at(180));
    const drained = pods.unwritten.drain();
    expect([drained.changed.map(({ name }) => name), drained.removed]).toEqual([['q'], ['uid-p']]);
    pods.unwritten.putBack(drained);
    expect(pods.unwritten.drain()).toEqual(drained);
    expect(pods.unwritten.drain()).toEqual({ changed: [], removed: [] });
  });

  test('forgets a timeline two minutes after nothing can change it', () => {
    const observation = observe();
    observation.pods.upserted(finished, undefined, live(20));
    observation.pods.deleted(finished, live(25));
    observation.pods.settle(at(60));
    expect(observation.pods.size).toBe(1);
    observation.pods.settle(at(180));
    expect(observation.pods.size).toBe(0);
    expect(observation.pods.unwritten.drain().removed).toEqual(['uid-p']);
  });

  test('refuses text of another version instead of misreading it', () => {
    expect(decodeTimeline('{"v":1,"view":{"uid":"x"},"spans":[]}')).toBeUndefined();
    expect(decodeTimeline('{')).toBeUndefined();
  });
});

describe('whatever happens to a pod', () => {
  type Step = {
    readonly kind: 'relabel' | 'resize' | 'finish' | 'delete';
    readonly second: number;
  };
  const steps = fc.array(
    fc.record({
      kind: fc.constantFrom<Step['kind']>('relabel', 'resize', 'finish', 'delete'),
      second: fc.integer({ min: -600, max: 600 }),
    }),
    { maxLength: 12 },
  );

  const apply = (observation: Observation, list: readonly Step[]): void => {
    let clock = 1;
    for (const [index, { kind, second }] of list.entries()) {
      clock += 30;
      const change = {
        name: 'p',
        createdAt: at(0),
        startedAt: at(7),
        ...(kind === 'relabel' ? { labels: { app: String(index) } } : {}),
        ...(kind === 'resize' ? { containers: [{ cpu: String(index) }] } : {}),
        ...(kind === 'finish' ? { phase: 'Succeeded', finishedAt: at(clock + second) } : {}),
      };
      const object = view(pod(change));
      if (kind === 'delete') observation.pods.deleted(object, live(clock));
      else observation.pods.upserted(object, undefined, live(clock));
    }
  };

  const isOrdered = (spans: readonly Span<PodState>[]): boolean =>
    spans.every((span, index) => {
      const next = spans[index + 1];
      return span.from <= span.to && (next === undefined || span.to <= next.from);
    });

  test('its spans stay in order and never overlap', () => {
    fc.assert(
      fc.property(steps, (list) => {
        const observation = observe();
        apply(observation, list);
        const timelines = [...observation.pods.inNamespace('tenant-a')];
        expect(timelines.every((timeline) => isOrdered(timeline.spans))).toBe(true);
      }),
    );
  });

  test('a change that reaches into closed windows is noticed', () => {
    fc.assert(
      fc.property(steps, fc.integer({ min: 1, max: 400 }), (list, closedAt) => {
        const observation = observe();
        apply(observation, [{ kind: 'resize', second: 0 }]);
        observation.pods.settle(at(closedAt));
        const [before] = [...observation.pods.inNamespace('tenant-a')].map((t) => t.spans);
        apply(observation, list);
        const [timeline] = observation.pods.inNamespace('tenant-a');
        const clip = (spans: readonly Span<PodState>[] = []) =>
          spansBefore(spans, at(closedAt)).map(({ from, to, state }) => [from, to, state]);
        const changed =
          JSON.stringify(clip(before), bigints) !== JSON.stringify(clip(timeline?.spans), bigints);
        const noticed =
          JSON.stringify(clip(timeline?.billed), bigints) === JSON.stringify(clip(before), bigints);
        expect(!changed || noticed).toBe(true);
      }),
    );
  });
});

function bigints(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value;
}

/** Whether nothing is left of a timeline that a window ending at `end` should have forgotten. */
function isStoredFor(end: number, { spans, gone, versionAt }: Timeline<PodState>): boolean {
  const [first] = spans;
  const last = spans.at(-1)?.to ?? versionAt;
  return (first?.to ?? Infinity) > end - 600_000 && (!gone || last > end - 120_000);
}

const anyChange = fc.record({
  name: fc.constantFrom('p', 'q', 'r'),
  namespace: fc.constantFrom('a', 'b'),
  what: fc.constantFrom('runs', 'finishes', 'goes', 'is bound again', 'settle', 'drain'),
  after: fc.integer({ min: 1, max: 400 }),
});
type AnyChange = typeof anyChange extends fc.Arbitrary<infer T> ? T : never;

/** Runs it this many seconds after START. */
function apply({ pods }: Observation, { name, namespace, what }: AnyChange, second: number): void {
  const object = pod({
    name,
    namespace,
    createdAt: at(second - 1),
    ...(what === 'is bound again' && { node: `n${second}` }),
    ...(what === 'finishes' && { phase: 'Succeeded', finishedAt: at(second - 1) }),
  });
  if (what === 'settle') pods.settle(at(second));
  else if (what === 'drain') pods.unwritten.drain();
  else if (what === 'goes') pods.deleted(view(object), live(second));
  else pods.upserted(view(object), undefined, live(second));
}

test('whatever pods do, the journal has all that changed, and what ended long ago is forgotten', () => {
  fc.assert(
    fc.property(fc.array(anyChange, { maxLength: 30 }), (changes) => {
      const observation = observe();
      const { pods } = observation;
      let second = 0;
      for (const change of changes) {
        second += change.after;
        apply(observation, change, second);
        const timelines = ['a', 'b'].flatMap((each) => [...pods.inNamespace(each)]);
        const dirty = timelines.filter((timeline) => timeline.dirty);
        const drained = pods.unwritten.drain();
        expect(new Set(drained.changed)).toEqual(new Set(dirty));
        pods.unwritten.putBack(drained);
        const isSettled = change.what === 'settle';
        expect(!isSettled || timelines.every((each) => isStoredFor(at(second), each))).toBe(true);
        expect(change.what === 'drain' && dirty.length > 0).toBe(false);
      }
    }),
    { numRuns: 200 },
  );
});
