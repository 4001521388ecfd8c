import { describe, expect, test } from 'vitest';
import { createDiagnostics } from '../meters/meter-reports.ts';
import { FINAL_REASONS, Gaps, omittedSliceGaps, unsampledGaps } from './gaps.ts';

const POD_SCOPE = { scope: 'pods' };
const gap = { source: 'pods', scope: 'pods', from: 0, to: 60_000, reason: 'HTTP 403' };

test('resource slices that are left out are a gap of the tenant cluster whose node has them', () => {
  const diagnostics = createDiagnostics();
  const window = { start: 0, end: 60_000 };
  expect(omittedSliceGaps(window, diagnostics, 'tenant-a')).toEqual([]);
  diagnostics.omittedSlices.set('n1', 7_744);
  diagnostics.omittedSlices.set('n2', 1);
  expect(omittedSliceGaps(window, diagnostics, 'tenant-a')).toEqual([
    {
      source: 'resourceslices',
      scope: 'tenant-a',
      from: 0,
      to: 60_000,
      reason: '7744 too many resource slices of node n1, and 1 nodes more: the newest count',
    },
  ]);
});

test('usage whose samples were dropped while the database was away is a gap with that reason', () => {
  const diagnostics = createDiagnostics();
  const window = { start: 0, end: 60_000 };
  diagnostics.unsampled.set('tenant-a', { from: 0, to: 60_000, podMs: 60_000 });
  const failures = { all: undefined, of: () => undefined };
  const reasons = (droppedUntil: number) =>
    unsampledGaps(window, diagnostics, failures, droppedUntil).map(({ reason }) => reason);
  expect(reasons(30_000)).toEqual(['database away for longer than samples are kept']);
  expect(reasons(-Infinity)).toEqual(['pods without samples']);
});

describe('gaps', () => {
  test('that go on are one gap, and count their time once', () => {
    const gaps = new Gaps();
    expect(gaps.note(gap)).toBe(60_000);
    expect(gaps.note({ ...gap, to: 120_000 })).toBe(60_000);
    expect(gaps.note({ ...gap, from: 120_000, to: 130_000 })).toBe(10_000);
    expect(gaps.note(gap)).toBe(0);
    expect(gaps.list()).toEqual([{ ...gap, to: 130_000 }]);
  });

  test('that end before a known one begins, or begin after it, are swallowed by it', () => {
    const gaps = new Gaps();
    const known = { ...gap, from: 100_000, to: 160_000 };
    const after = { ...gap, from: 200_000, to: 210_000 };
    for (const each of [known, gap, after]) expect(gaps.note(each)).toBe(each.to - each.from);
    expect(gaps.list()).toEqual([after, known, gap]);
  });

  test('of other sources and scopes are gaps of their own', () => {
    const gaps = new Gaps();
    gaps.note(gap);
    gaps.note({ ...gap, source: 'nodes' });
    gaps.note({ ...gap, scope: 'volumes' });
    expect(gaps.list()).toHaveLength(3);
  });

  test('shrink as they are filled, and go when nothing of them is left', () => {
    const gaps = new Gaps();
    gaps.note(gap);
    gaps.filled(POD_SCOPE, 20_000);
    expect(gaps.list()).toEqual([{ ...gap, from: 20_000 }]);
    gaps.filled(POD_SCOPE, 60_000);
    expect(gaps.list()).toEqual([]);
    const lost = { ...gap, source: 'collector' };
    gaps.note(lost);
    gaps.filled(POD_SCOPE, 60_000);
    expect(gaps.list()).toEqual([lost]);
  });

  test('that begin after the closed window, or are of another source, are filled with it', () => {
    const gaps = new Gaps();
    const later = { ...gap, from: 120_000, to: 180_000 };
    const ofClaims = { ...gap, source: 'resourceclaims' };
    for (const each of [gap, later, ofClaims]) gaps.note(each);
    gaps.filled({ ...POD_SCOPE, source: 'pods' }, 60_000);
    expect(gaps.list()).toEqual([later, ofClaims]);
  });

  test.each([...FINAL_REASONS])(
    'with the reason "%s" stay when windows are closed, and swallow none that can be filled',
    (reason) => {
      const gaps = new Gaps();
      const final = { ...gap, reason };
      gaps.note(gap);
      expect(gaps.note(final)).toBe(60_000);
      expect(gaps.note({ ...final, from: 30_000, to: 90_000 })).toBe(30_000);
      gaps.note({ ...gap, from: 60_000, to: 120_000 });
      expect(gaps.list()).toEqual([
        { ...gap, to: 120_000 },
        { ...final, to: 90_000 },
      ]);
      gaps.filled(POD_SCOPE, 120_000);
      expect(gaps.list()).toEqual([{ ...final, to: 90_000 }]);
      const restored = new Gaps();
      restored.restore(gaps.drain().map(({ key, value }) => [key, value ?? '{}']));
      expect(restored.list()).toEqual(gaps.list());
    },
  );

  test('survive a restart, and leave no record behind when they are filled', () => {
    const gaps = new Gaps();
    gaps.note(gap);
    const records = new Map(gaps.drain().map(({ key, value }) => [key, value ?? '']));
    const restored = new Gaps();
    restored.restore(records);
    expect(restored.list()).toEqual([gap]);
    restored.filled(POD_SCOPE, 60_000);
    expect(restored.drain()).toEqual([{ key: [...records.keys()][0], value: undefined }]);
    expect(gaps.drain()).toEqual([]);
  });

  test('of private nodes that an earlier version stored are listed twice, or for ever', () => {
    const stored = { source: 'own-nodes', scope: 'a', from: 0, to: 60_000, reason: 'too many' };
    const key = 'gap/own-nodes/a/1970-01-01T00:00:00.000Z';
    const renamed = { ...stored, source: 'private-nodes' };
    const gaps = new Gaps();
    gaps.restore([[key, JSON.stringify({ v: 1, ...stored })]]);
    expect(gaps.list()).toEqual([renamed]);
    expect(gaps.note({ ...renamed, from: 60_000, to: 120_000 })).toBe(60_000);
    const records = new Map(gaps.drain().map((change) => [change.key, change.value]));
    expect([...records.keys()]).toEqual([key, 'gap/private-nodes/a/1970-01-01T00:00:00.000Z']);
    expect(records.get(key)).toBeUndefined();
  });

  test('are forgotten when they are old', () => {
    const gaps = new Gaps();
    gaps.note(gap);
    gaps.prune(60_001);
    expect(gaps.list()).toEqual([]);
  });

  test('of last month are still shown when the events are gone, also after a restart', () => {
    const gaps = new Gaps();
    gaps.note(gap);
    const records = new Map(
      gaps
        .drain()
        .flatMap(({ key, value }) => (value === undefined ? [] : [[key, value] as const])),
    );
    gaps.prune(60_001, 0);
    expect(gaps.list()).toEqual([]);
    expect(gaps.past()).toEqual([gap]);
    expect(gaps.drain()).toEqual([]);
    const restored = new Gaps();
    restored.restore(records);
    restored.prune(60_001, 0);
    expect(restored.past()).toEqual([gap]);
    restored.prune(60_001, 60_001);
    expect(restored.past()).toEqual([]);
    expect(restored.drain()).toEqual([{ key: [...records.keys()][0], value: undefined }]);
  });
});
