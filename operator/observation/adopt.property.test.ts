import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Arrival } from '../kubernetes/source.ts';
import { decodeTimeline, encodeTimeline } from './journal-text.ts';
import { currentState, enter, type Span, spansBefore } from './timeline.ts';
import { createTimelines } from './timeline-store.ts';
import type { Observed, TimelineRules, Timelines, Tracked } from './timelines.ts';

interface Thing extends Observed {
  readonly state: string;
}

const WINDOW_MS = 10_000;
const SETTLING_MS = 3_000;
/** Some changes are told after the window is closed in which they came about. */
const DELAY_MS = 5_000;

/** Objects that date nothing: what each process knows of a change is when it heard of it. */
function things(): Timelines<Thing, string> {
  const rules: TimelineRules<Thing, string> = {
    kind: 'thing',
    follow: (timeline, { state }, seen) => {
      if (currentState(timeline) !== state) enter(timeline, state, seen.until);
    },
  };
  const timelines = createTimelines(rules, { standsBy: true });
  timelines.listed(() => true, 0);
  return timelines;
}

interface Change {
  /** Milliseconds. */
  readonly at: number;
  readonly thing: number;
  /** The state that it has from then on; undefined where it is deleted. */
  readonly state: string | undefined;
  /** How much later each process hears of it. */
  readonly delays: { readonly meter: number; readonly standby: number };
}

const change = fc.record<Change>({
  at: fc.integer({ min: 0, max: 60_000 }),
  thing: fc.nat(5),
  state: fc.option(fc.constantFrom('a', 'b'), { nil: undefined }),
  delays: fc.record({
    meter: fc.integer({ min: 1, max: DELAY_MS }),
    standby: fc.integer({ min: 1, max: DELAY_MS }),
  }),
});

const history = fc.record({
  changes: fc.array(change, { maxLength: 40 }),
  diesAt: fc.integer({ min: 0, max: 63_000 }),
  /** When the meter writes its journal between windows. */
  savesAt: fc.array(fc.integer({ min: 0, max: 60_000 }), { maxLength: 4 }),
  followsAfter: fc.integer({ min: 1, max: 400 }),
});

const live = (at: number): Arrival => ({ at, knownUntil: at, late: false });

/** A process that hears of changes, in the order in which they come about. */
class Watcher {
  readonly timelines = things();
  readonly #held = new Map<number, Thing>();

  hear({ thing, state, at: born }: Change, at: number): void {
    const before = this.#held.get(thing);
    if (state === undefined) {
      this.#held.delete(thing);
      if (before !== undefined) this.timelines.deleted(before, live(at));
      return;
    }
    const [namespace, name] = ['space', String(thing)];
    // One that comes again under its name is another one.
    const uid = before?.uid ?? `${thing} of ${this.#births++}`;
    const next = { uid, namespace, name, createdAt: before?.createdAt ?? born, state };
    this.#held.set(thing, next);
    this.timelines.upserted(next, before, live(at));
  }

  #births = 0;

  all(): readonly Tracked<Thing, string>[] {
    return [...this.timelines.inNamespace('space')] as Tracked<Thing, string>[];
  }
}

class Journal {
  readonly texts = new Map<string, string>();

  write(timelines: Timelines<Thing, string>): void {
    const { changed, removed } = timelines.drain();
    for (const uid of removed) this.texts.delete(uid);
    for (const timeline of changed) this.texts.set(timeline.uid, encodeTimeline(timeline));
  }

  read(): readonly Tracked<Thing, string>[] {
    return [...this.texts.values()].flatMap((text) => decodeTimeline<Thing, string>(text) ?? []);
  }
}

function plain(spans: readonly Span<string>[], before: number): readonly unknown[] {
  return spansBefore(spans, before).map(({ from, to, state }) => [from, to, state]);
}

test('a process that takes over knows what closed windows billed of every object, and has the journal tell of the same', () => {
  fc.assert(
    fc.property(history, ({ changes, diesAt, savesAt, followsAfter }) => {
      const meter = new Watcher();
      const standby = new Watcher();
      const journal = new Journal();
      const ordered = changes.toSorted((a, b) => a.at - b.at);
      let settled = 0;
      let billed = new Map<string, readonly unknown[]>();
      const close = (end: number): void => {
        meter.timelines.settle(end);
        journal.write(meter.timelines);
        settled = end;
        billed = new Map(meter.all().map(({ uid, spans }) => [uid, plain(spans, end)]));
      };
      const steps: (readonly [at: number, step: () => void])[] = [
        ...inOrder(ordered, ({ delays }) => delays.meter).map(
          ([at, each]) => [at, () => at < diesAt && meter.hear(each, at)] as const,
        ),
        ...inOrder(ordered, ({ delays }) => delays.standby).map(
          ([at, each]) => [at, () => standby.hear(each, at)] as const,
        ),
        ...savesAt.map((at) => [at, () => at < diesAt && journal.write(meter.timelines)] as const),
        ...[1, 2, 3, 4, 5, 6].flatMap((index) => {
          const end = index * WINDOW_MS;
          const closedAt = end + SETTLING_MS;
          if (closedAt >= diesAt) return [];
          const follow = (): void => {
            standby.timelines.settle(end);
            standby.timelines.drain();
          };
          return [
            [closedAt, () => close(end)] as const,
            [closedAt + followsAfter, follow] as const,
          ];
        }),
      ];
      for (const [, step] of steps.toSorted(([a], [b]) => a - b)) step();
      const known = new Map(standby.all().map(({ uid, spans }) => [uid, spans]));

      standby.timelines.adopt(journal.read(), settled);

      const own = new Map(standby.all().map((timeline) => [timeline.uid, timeline]));
      for (const [uid, spans] of billed) {
        const timeline = own.get(uid);
        expect(plain(timeline?.billed ?? timeline?.spans ?? [], settled)).toEqual(spans);
      }
      for (const [uid, { billed: before, spans }] of own) {
        expect(plain(before ?? spans, settled)).toEqual(billed.get(uid) ?? []);
        // What it has seen itself it bills, but for the time by which two processes hear of it.
        for (const [index, { from }] of (known.get(uid) ?? []).entries()) {
          expect(Math.abs((spans[index]?.from ?? Infinity) - from)).toBeLessThan(2 * DELAY_MS);
        }
      }
      journal.write(standby.timelines);
      expect([...journal.texts.keys()].toSorted()).toEqual([...own.keys()].toSorted());
      for (const restored of journal.read()) {
        const { spans, gone, billed: late } = own.get(restored.uid) ?? {};
        expect(restored).toMatchObject({ spans, gone, billed: late });
      }
    }),
    { numRuns: 2_000 },
  );
});

test('what two processes heard of some milliseconds apart is no late fact when one takes over from the other', () => {
  fc.assert(
    fc.property(history, fc.integer({ min: 61_000, max: 70_000 }), ({ changes }, closedAt) => {
      const meter = new Watcher();
      const standby = new Watcher();
      const ordered = changes.toSorted((a, b) => a.at - b.at);
      for (const [at, each] of inOrder(ordered, ({ delays }) => delays.meter)) {
        if (at < closedAt) meter.hear(each, undated(at));
      }
      for (const [at, each] of inOrder(ordered, ({ delays }) => delays.standby)) {
        standby.hear(each, undated(at));
      }
      const journal = new Journal();
      meter.timelines.settle(60_000);
      journal.write(meter.timelines);

      standby.timelines.settle(60_000);
      standby.timelines.adopt(journal.read(), 60_000);

      for (const { uid, billed, spans } of standby.all()) {
        const [before] = meter.all().filter((each) => each.uid === uid);
        // All that both have heard of the object.
        if (before === undefined || before.spans.length !== spans.length) continue;
        if (before.gone !== (spans.at(-1)?.to ?? 0) < Infinity) continue;
        expect(plain(spans, 60_000)).toEqual(plain(before.spans, 60_000));
        expect(billed).toBeUndefined();
      }
    }),
    { numRuns: 2_000 },
  );
});

test('a time of the API that one process knows and the other did not is a late fact', () => {
  const [meter, standby] = [things(), things()];
  const thing = { uid: 'u', namespace: 'space', name: 'n', createdAt: 1_234, state: 'a' };
  for (const timelines of [meter, standby]) timelines.upserted(thing, undefined, live(1_234));
  meter.settle(10_000);
  standby.settle(10_000);
  const journal = new Journal();
  journal.write(meter);
  // It had ended within the window, as its object says by now.
  standby.deleted(thing, live(6_000));
  standby.adopt(journal.read(), 10_000);
  const [known] = [...standby.inNamespace('space')];
  expect(plain(known?.spans ?? [], 10_000)).toEqual([[1_234, 6_000, 'a']]);
  expect(plain(known?.billed ?? [], 10_000)).toEqual([[1_234, 10_000, 'a']]);
});

test('a late fact that closed windows were put right by is not billed once more by whoever takes over', () => {
  const standby = things();
  const thing = { uid: 'u', namespace: 'space', name: 'n', createdAt: 1_234, state: 'a' };
  standby.upserted(thing, undefined, live(1_234));
  standby.settle(10_000);
  standby.drain();
  standby.deleted(thing, live(6_000));
  // The meter has carried that into a window, closed others, and forgotten the object.
  standby.adopt([], 200_000);
  expect([...standby.late()]).toEqual([]);
  standby.settle(210_000);
  expect(standby.drain()).toEqual({ changed: [], removed: ['u'] });
});

/** No time that the API could have said. */
function undated(at: number): number {
  return at % 1_000 === 0 ? at + 0.5 : at;
}

/** Each with when it is heard of: none before what came about before it. */
function inOrder(
  changes: readonly Change[],
  delayOf: (each: Change) => number,
): readonly (readonly [at: number, each: Change])[] {
  let last = -Infinity;
  return changes.map((each) => {
    last = Math.max(last + 1, each.at + delayOf(each));
    return [last, each] as const;
  });
}
