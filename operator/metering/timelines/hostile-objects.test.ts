import { expect, test } from 'vitest';
import { least } from '../../model/extremes.ts';
import type { RawObject } from '../../kubernetes/source.ts';
import { encodeJson } from './journal-text.ts';
import { projectNode } from './node.ts';
import { projectPod } from './pod.ts';

const MANY = 200_000;

test("a node's labels nested 20,000 deep do not overflow the journal", () => {
  let nested: unknown = 'x';
  for (let depth = 0; depth < 20_000; depth++) nested = { nested };
  const labels = { zone: 'a', deep: nested, number: 1, list: ['b'], $bigint: 'no number' };
  const node = projectNode({ metadata: { uid: 'n', name: 'n', labels } });
  expect(node?.labels).toEqual({ zone: 'a' });
  expect(encodeJson(node)).toContain('"zone":"a"');
});

test('a pod with 200,000 container statuses has a first start and a last finish', () => {
  const terminated = { startedAt: '2026-03-01T12:00:00Z', finishedAt: '2026-03-01T13:00:00Z' };
  const containerStatuses = Array.from(
    { length: MANY },
    (): RawObject => ({
      state: { terminated },
    }),
  );
  const pod = projectPod({
    metadata: { uid: 'p', name: 'p' },
    status: { phase: 'Succeeded', containerStatuses },
  });
  expect(pod?.startedAt).toBe(Date.parse(terminated.startedAt));
  expect(pod?.finishedAt).toBe(Date.parse(terminated.finishedAt));
});

test('the least of 200,000 numbers', () => {
  expect(least(Array.from({ length: MANY }, (_, index) => MANY - index))).toBe(1);
  expect(least([])).toBe(Infinity);
});
