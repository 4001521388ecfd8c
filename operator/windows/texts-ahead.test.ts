import * as fc from 'fast-check';
import { expect, test, vi } from 'vitest';
import { NODE_SETTINGS, pod } from '../metering/testing/objects.ts';
import { START } from '../metering/testing/world.ts';
import { encodeTimeline } from '../observation/journal-text.ts';
import { createObservation, type Observation } from '../observation/observation.ts';
import { projectPod, type PodView } from '../observation/pod.ts';
import { drainChanges, timelineChanges } from './journal.ts';
import { TextsAhead } from './texts-ahead.ts';

/** As a tenant cluster's own journal drains them, and as that of this cluster does. */
const DRAINS = {
  whole: (pods: Pods, texts: TextsAhead) => drainChanges('journal/', pods, texts).changes,
  single: (pods: Pods, texts: TextsAhead) => timelineChanges(pods, () => undefined, texts),
};
type Pods = Observation['pods'];

function podOf(name: string, phase: string, startedAt: number | null): PodView {
  const view = projectPod(pod({ name, phase, createdAt: START, startedAt }));
  if (view === undefined) throw new Error('fixture without uid or name');
  return view;
}

const NAMES = ['a', 'b', 'c', 'd', 'e'];
type Step =
  | { readonly kind: 'make' }
  | { readonly kind: 'begin' | 'see' | 'delete'; readonly name: string; readonly second: number };

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.constant({ kind: 'make' as const }),
  fc.record({
    kind: fc.constantFrom('begin' as const, 'see' as const, 'delete' as const),
    name: fc.constantFrom(...NAMES),
    second: fc.integer({ min: 1, max: 50 }),
  }),
);

test('what is written ahead of a window is never older than what the window was measured of', () => {
  fc.assert(
    fc.property(
      fc.array(step, { maxLength: 40 }),
      fc.boolean(),
      fc.boolean(),
      fc.constantFrom('whole' as const, 'single' as const),
      (steps, isSettled, isForeseen, drain) => {
        const { pods } = createObservation({
          nodeSettings: () => NODE_SETTINGS,
          billedUntil: (present) => present,
          countClamped: () => undefined,
        });
        pods.listed(() => true, 0);
        const texts = new TextsAhead();
        const making = texts.make(pods, isForeseen ? START + 30_000 : undefined);
        for (const [index, each] of steps.entries()) {
          if (each.kind === 'make') {
            making.next();
            continue;
          }
          const at = START + Math.max(index, each.second) * 1000;
          const arrival = { at, knownUntil: at, late: false };
          const begun = podOf(each.name, 'Running', START + each.second * 1000);
          if (each.kind === 'begin')
            pods.upserted(podOf(each.name, 'Pending', null), undefined, arrival);
          else if (each.kind === 'see') pods.upserted(begun, undefined, arrival);
          else pods.deleted(begun, arrival);
        }
        if (isSettled) pods.settle(START + 30_000);
        const expected = [...pods.changed()].map((each) => encodeTimeline(each)).toSorted();
        const changes = DRAINS[drain](pods, texts);
        const written = changes.flatMap(({ value }) => value ?? []).toSorted();
        expect(written).toEqual(expected);
        expect([...pods.changed()]).toEqual([]);
      },
    ),
    { numRuns: 300 },
  );
});

test('what a late fact changed is made ahead as it was before its window was closed, and made again', () => {
  const { pods } = createObservation({
    nodeSettings: () => NODE_SETTINGS,
    billedUntil: (present) => present,
    countClamped: () => undefined,
  });
  const end = START + 1_200_000;
  const seen = (at: number) => ({ at, knownUntil: at, late: false });
  pods.listed(() => true, 0);
  pods.upserted(podOf('late', 'Pending', null), undefined, seen(START));
  pods.upserted(podOf('kept', 'Running', START), undefined, seen(START));
  pods.settle(end - 60_000);
  // It has run for longer than windows were closed, and its first state is too old to be kept.
  pods.upserted(podOf('late', 'Running', START + 1_000), undefined, seen(end));
  const texts = new TextsAhead();
  expect([...texts.make(pods, end)]).toHaveLength(2);
  pods.settle(end);
  const expected = [...pods.changed()].map((each) => encodeTimeline(each));
  expect(expected).toHaveLength(2);
  const encodes = vi.spyOn(JSON, 'stringify');
  const { changes } = drainChanges('journal/', pods, texts);
  expect(encodes).not.toHaveBeenCalled();
  encodes.mockRestore();
  expect(changes.map(({ value }) => value)).toEqual(expected);
});

test('an object that cannot be written does not keep those after it from being made ahead', () => {
  const observation = createObservation({
    nodeSettings: () => NODE_SETTINGS,
    billedUntil: (present) => present,
    countClamped: () => undefined,
  });
  const arrival = { at: START, knownUntil: START, late: false };
  const circle: Record<string, string> = {};
  Object.assign(circle, { circle });
  observation.pods.upserted(
    { ...podOf('a', 'Running', START), labels: circle },
    undefined,
    arrival,
  );
  observation.pods.upserted(podOf('b', 'Running', START), undefined, arrival);
  const texts = new TextsAhead();
  expect([...texts.make(observation.pods)]).toHaveLength(2);
  expect(() => drainChanges('journal/', observation.pods, texts)).toThrow(/circular/i);
  expect([...observation.pods.changed()]).toHaveLength(2);
});
