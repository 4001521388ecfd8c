import { expect, test } from 'vitest';
import { merge } from './merge-timelines.ts';
import type { Span } from './timeline.ts';
import { createTracked } from './timeline-index.ts';
import type { Tracked } from './timelines.ts';

const thing = { uid: 'u', namespace: 'space', name: 'n', createdAt: 1_000 };
type Thing = typeof thing & { readonly version: number };
const SETTLED = 30_000;
const ON = Infinity;

function timeline(
  version: number,
  versionAt: number,
  spans: readonly Span<string>[],
): Tracked<Thing, string> {
  const tracked = createTracked<Thing, string>({ ...thing, version }, versionAt);
  tracked.spans = spans;
  tracked.versionAt = versionAt;
  return tracked;
}

function merged(own: Tracked<Thing, string>, written: Tracked<Thing, string>) {
  merge(own, written, { settled: SETTLED, horizon: 0 });
  const late = own.billed?.map(({ from, to, state }) => [from, to, state]);
  return { spans: own.spans.map(({ from, to, state }) => [from, to, state]), late };
}

test('a replica that was told of a change a moment later bills it by when the former meter was', () => {
  const own = timeline(3, 34_000, [
    { from: 5_000, to: 12_345, state: 'a' },
    { from: 12_345, to: 33_000, state: 'b' },
  ]);
  const written = timeline(2, 12_300, [
    { from: 5_000, to: 12_300, state: 'a' },
    { from: 12_300, to: ON, state: 'b' },
  ]);
  expect(merged(own, written)).toEqual({
    spans: [
      [5_000, 12_300, 'a'],
      [12_300, 33_000, 'b'],
    ],
    late: undefined,
  });
});

test('a replica that was started after a change, and is not sure when it was, takes what the former meter saw', () => {
  const unsure = [
    { from: 5_000, to: 10_000, state: 'a', unsureTo: 6_000 },
    { from: 10_000, to: 16_111, state: 'least', unsureFrom: 6_000 },
    { from: 16_111, to: ON, state: 'b', unsureFrom: 6_000 },
  ];
  const written = timeline(2, 12_300, [
    { from: 5_000, to: 12_300, state: 'a' },
    { from: 12_300, to: ON, state: 'b' },
  ]);
  const seen = [
    [5_000, 12_300, 'a'],
    [12_300, ON, 'b'],
  ];
  // It has seen nothing since.
  expect(merged(timeline(2, 16_111, unsure), written)).toEqual({ spans: seen, late: undefined });
  // And it has seen the end since.
  const ended = unsure.with(2, { from: 16_111, to: 33_000, state: 'b', unsureFrom: 6_000 });
  expect(merged(timeline(3, 34_000, ended), written)).toEqual({
    spans: [
      [5_000, 12_300, 'a'],
      [12_300, 33_000, 'b'],
    ],
    late: undefined,
  });
});

test('what the API has told since the last window is a late fact, though this replica was not sure of something else', () => {
  const own = timeline(3, 41_000, [
    { from: 5_000, to: 10_000, state: 'a', unsureTo: 6_000 },
    { from: 10_000, to: 16_111, state: 'least', unsureFrom: 6_000 },
    { from: 16_111, to: 28_000, state: 'b', unsureFrom: 6_000 },
  ]);
  const written = timeline(2, 12_300, [
    { from: 5_000, to: 12_300, state: 'a' },
    { from: 12_300, to: ON, state: 'b' },
  ]);
  const { spans, late } = merged(own, written);
  expect(spans.at(-1)?.[1]).toBe(28_000);
  expect(late).toEqual([
    [5_000, 12_300, 'a'],
    [12_300, ON, 'b'],
  ]);
});

test('an object of which this replica alone was told is billed as it was told', () => {
  const own = timeline(2, 28_258, [{ from: 25_955, to: 28_258, state: 'a' }]);
  const written = timeline(1, 30_000, [{ from: 30_000, to: ON, state: 'a' }]);
  own.gone = true;
  expect(merged(own, written).spans).toEqual([[25_955, 28_258, 'a']]);
});

test('a guess that comes to the same state as what followed is one span with it', () => {
  const written = timeline(2, 12_300, [
    { from: 5_000, to: 12_300, state: 'a' },
    { from: 12_300, to: ON, state: 'b' },
  ]);
  const own = timeline(3, 34_000, [
    { from: 5_000, to: 10_000, state: 'a', unsureTo: 6_000 },
    { from: 10_000, to: 16_111, state: 'b', unsureFrom: 6_000 },
    { from: 16_111, to: 33_000, state: 'b', unsureFrom: 6_000 },
  ]);
  expect(merged(own, written)).toEqual({
    spans: [
      [5_000, 12_300, 'a'],
      [12_300, 33_000, 'b'],
    ],
    late: undefined,
  });
});

test('a former meter that lagged was told of an older version last, and what it never saw is undone', () => {
  const own = timeline(3, 29_732, [
    { from: 25_029, to: 29_732, state: 'b' },
    { from: 29_732, to: ON, state: 'a' },
  ]);
  const written = timeline(2, 29_733, [{ from: 29_733, to: ON, state: 'b' }]);
  expect(merged(own, written).spans.at(-1)).toEqual([29_732, ON, 'a']);
  expect(own.view.version).toBe(3);
});

test('an object is again what it was when it was written, and what it was meanwhile is billed to nobody', () => {
  const own = timeline(1, 36_000, [
    { from: 5_050, to: 31_500, state: 'b' },
    { from: 31_500, to: 36_000, state: 'down' },
    { from: 36_000, to: ON, state: 'b' },
  ]);
  const written = timeline(1, 5_100, [{ from: 5_100, to: ON, state: 'b' }]);
  expect(merged(own, written)).toEqual({
    spans: [
      [5_100, 31_500, 'b'],
      [31_500, 36_000, 'down'],
      [36_000, ON, 'b'],
    ],
    late: undefined,
  });
});
