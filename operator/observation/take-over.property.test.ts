import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Arrival } from '../kubernetes/source.ts';
import { NODE_SETTINGS, OWN_LABELS, pod } from '../metering/testing/objects.ts';
import { START } from '../metering/testing/times.ts';
import { decodeTimeline, encodeTimeline } from './journal-text.ts';
import { createObservation } from './observation.ts';
import { type PodState, type PodView, projectPod } from './pod.ts';
import { type Span, spansBefore } from './timeline.ts';
import type { Timelines, Tracked } from './timelines.ts';

type Pods = Timelines<PodView, PodState>;

const WINDOW_MS = 10_000;
const SETTLING_MS = 9_000;
const END_MS = 60_000;

/** A pod's life, as the API tells of it; milliseconds after the start of all, whole seconds where the API says them. */
interface Life {
  readonly createdAt: number;
  readonly startedAt: number;
  readonly finishedAt: number;
  /** How much later its kubelet tells of its start and its finish. */
  readonly tells: number;
  /** When it gets another namespace inside of its tenant cluster. */
  readonly relabelledAt: number | undefined;
  /** How long after the finish was told its object is removed. */
  readonly removedAfter: number;
}

const life = fc
  .record({
    createdAt: fc.nat(50),
    waits: fc.nat(3),
    runs: fc.integer({ min: 1, max: 40 }),
    tells: fc.integer({ min: 1, max: 2_000 }),
    relabelledAfter: fc.option(fc.nat(30_000), { nil: undefined }),
    removedAfter: fc.nat(3_000),
  })
  .map(({ createdAt, waits, runs, tells, relabelledAfter, removedAfter }): Life => {
    const startedAt = createdAt + waits;
    const finishedAt = (startedAt + runs) * 1_000;
    const relabelled = startedAt * 1_000 + tells + (relabelledAfter ?? 0);
    const isRelabelled = relabelledAfter !== undefined && relabelled < finishedAt;
    return {
      createdAt: createdAt * 1_000,
      startedAt: startedAt * 1_000,
      finishedAt,
      tells,
      relabelledAt: isRelabelled ? relabelled : undefined,
      removedAfter,
    };
  });

/** Something that the API server has stored of one pod at a moment: its view, or that it is gone. */
interface Change {
  readonly at: number;
  readonly pod: number;
  readonly view: PodView;
  readonly isGone: boolean;
}

function changesOf(lives: readonly Life[]): readonly Change[] {
  return lives
    .flatMap((each, number): readonly Change[] => {
      const { createdAt, startedAt, finishedAt, tells, relabelledAt = Infinity } = each;
      const viewAt = (at: number): PodView => {
        const moved = { ...OWN_LABELS, 'vcluster.loft.sh/namespace': 'later' };
        const projected = projectPod(
          pod({
            name: `p${number}`,
            labels: at >= relabelledAt ? moved : OWN_LABELS,
            createdAt: START + createdAt,
            ...(at < startedAt + tells
              ? { phase: 'Pending', startedAt: null }
              : { startedAt: START + startedAt }),
            ...(at < finishedAt + tells
              ? {}
              : { phase: 'Succeeded', finishedAt: START + finishedAt }),
          }),
        );
        if (projected === undefined) throw new Error('fixture without uid or name');
        return projected;
      };
      const moments = [createdAt + 1, startedAt + tells + 1, relabelledAt, finishedAt + tells + 2];
      const told = moments.filter((at) => at < Infinity);
      const gone = finishedAt + tells + 3 + each.removedAfter;
      return [
        ...told.map((at) => ({ at, pod: number, view: viewAt(at), isGone: false })),
        { at: gone, pod: number, view: viewAt(gone), isGone: true },
      ];
    })
    .toSorted((a, b) => a.at - b.at);
}

function observe(): Pods {
  return createObservation({
    nodeSettings: () => NODE_SETTINGS,
    billedUntil: (present) => present,
    standsBy: true,
  }).pods;
}

function tell(pods: Pods, { view, isGone }: Change, arrival: Omit<Arrival, 'late'>): void {
  if (isGone) pods.deleted(view, { ...arrival, late: false });
  else pods.upserted(view, undefined, { ...arrival, late: false });
}

function tellLive(pods: Pods, change: Change, delay: number): void {
  const at = START + change.at + delay;
  tell(pods, change, { at, knownUntil: at });
}

class Journal {
  readonly texts = new Map<string, string>();
  /** Whoever wrote it last had been told of everything until then. */
  knownAt = 0;
  settled = 0;

  write(pods: Pods, knownAt: number): void {
    const { changed, removed } = pods.drain();
    for (const uid of removed) this.texts.delete(uid);
    for (const timeline of changed) this.texts.set(timeline.uid, encodeTimeline(timeline));
    this.knownAt = knownAt;
  }

  read(): readonly Tracked<PodView, PodState>[] {
    const texts = [...this.texts.values()];
    return texts.flatMap((text) => decodeTimeline<PodView, PodState>(text) ?? []);
  }
}

interface Standby {
  readonly startsAt: number;
  /** Its watch could not go on where the journal was, so that it lists what there is. */
  readonly lists: boolean;
  /** How well the moments are known of what it is told of the time before its start. */
  readonly unsureMs: number;
  readonly delay: number;
}

/** A replica that has been started while another one meters: up to its start. */
function start(standby: Standby, journal: Journal, changes: readonly Change[]): Pods {
  const { startsAt, lists, unsureMs } = standby;
  const pods = observe();
  pods.restore(journal.read(), START + journal.settled);
  const missed = changes.filter(({ at }) => at >= journal.knownAt && at < startsAt);
  const arrival = { at: START + startsAt, knownUntil: START + journal.knownAt };
  if (!lists) {
    for (const change of missed) {
      const from = START + Math.max(journal.knownAt, change.at - unsureMs);
      const until = START + Math.min(startsAt, change.at + unsureMs);
      tell(pods, change, { ...arrival, happened: { from, until } });
    }
    return pods;
  }
  const last = new Map(
    changes.filter(({ at }) => at < startsAt).map((change) => [change.pod, change]),
  );
  const there = [...last.values()].filter(({ isGone }) => !isGone);
  for (const { view, at } of there) {
    if (at >= journal.knownAt) pods.upserted(view, undefined, { ...arrival, late: true });
  }
  const uids = new Set(there.map(({ view }) => view.uid));
  pods.listed((object) => uids.has(object.uid), START + journal.knownAt, START + startsAt);
  return pods;
}

function plain(spans: readonly Span<PodState>[], before: number): readonly unknown[] {
  return spansBefore(spans, before).map(({ from, to, state }) => [from, to, state]);
}

test('a replica that was started while pods came, changed and went carries nothing of closed windows when it takes over', () => {
  const standby = fc.record<Standby>({
    startsAt: fc.integer({ min: 5_000, max: END_MS - 6_000 }),
    lists: fc.boolean(),
    unsureMs: fc.constantFrom(0, 500, 3_000),
    delay: fc.nat(400),
  });
  const scene = fc.record({
    lives: fc.array(life, { minLength: 1, maxLength: 8 }),
    standby,
    delay: fc.nat(400),
    savesAt: fc.nat(END_MS),
    diesAt: fc.integer({ min: END_MS - 5_000, max: END_MS }),
  });
  fc.assert(
    fc.property(scene, ({ lives, standby: own, delay, savesAt, diesAt }) => {
      const changes = changesOf(lives);
      const meter = observe();
      meter.adopt([], START);
      const journal = new Journal();
      let replica: Pods | undefined;
      const steps: (readonly [at: number, step: () => void])[] = [
        ...changes.flatMap((change) => [
          [change.at + delay, () => tellLive(meter, change, delay)] as const,
        ]),
        [savesAt, () => journal.write(meter, savesAt - delay)],
        ...[1, 2, 3, 4, 5].map((number) => {
          const end = number * WINDOW_MS;
          const close = (): void => {
            meter.settle(START + end);
            journal.settled = end;
            journal.write(meter, end + SETTLING_MS - delay);
            replica?.settle(START + end);
            replica?.drain();
          };
          return [end + SETTLING_MS, close] as const;
        }),
        [own.startsAt + delay, () => (replica = start(own, journal, changes))],
      ];
      const ordered = steps.filter(([at]) => at < diesAt).toSorted(([a], [b]) => a - b);
      for (const [, step] of ordered) step();
      if (replica === undefined) throw new Error('it was not started');
      for (const change of changes) {
        if (change.at >= own.startsAt) tellLive(replica, change, own.delay);
      }
      const settled = START + journal.settled;

      replica.adopt(journal.read(), settled);

      expect([...replica.late()]).toEqual([]);
      for (const { uid, spans, namespace } of journal.read()) {
        const found = replica.find({ uid, namespace });
        expect(plain(found?.spans ?? [], settled)).toEqual(plain(spans, settled));
      }
      // It was told of every end, which the API dates, but where a list has nothing of a pod any more.
      for (const [number, { finishedAt, tells }] of lives.entries()) {
        const found = replica.find({ uid: `uid-p${number}`, namespace: 'tenant-a' });
        const { to = START + finishedAt, unsureTo = 0 } = found?.spans.at(-1) ?? {};
        expect(to).toBeLessThanOrEqual(START + finishedAt + (own.lists ? tells + 2 : 0));
        expect(to + unsureTo).toBeGreaterThanOrEqual(START + finishedAt);
      }
    }),
    { numRuns: 1_000 },
  );
});
