import { expect, test } from 'vitest';
import { type Condition, parseConditions, setCondition } from './conditions.ts';

const T0 = Date.UTC(2026, 0, 1, 0, 0, 0, 987);
const ready = {
  type: 'Ready',
  status: 'True',
  reason: 'Synced',
  message: 'All is well',
  observedGeneration: 1,
} as const;

test('times are cut to whole seconds, so that writing the same state twice is the same', () => {
  expect(setCondition([], ready, T0)[0]?.lastTransitionTime).toBe('2026-01-01T00:00:00Z');
});

test('the transition time moves when the status flips, not when reason or generation change', () => {
  const first = setCondition([], ready, T0);
  const update = { ...ready, reason: 'Other', observedGeneration: 2 };
  const second = setCondition(first, update, T0 + 60_000);
  expect(second).toEqual([{ ...update, lastTransitionTime: '2026-01-01T00:00:00Z' }]);
  const third = setCondition(second, { ...update, status: 'False' }, T0 + 120_000);
  expect(third[0]?.lastTransitionTime).toBe('2026-01-01T00:02:00Z');
});

test('Ready comes first and the rest by name, in whatever order they were set', () => {
  const names = ['Stalled', 'Ready', 'Bootstrapped', 'Delivering'];
  const conditions = names.reduce<readonly Condition[]>(
    (all, type) => setCondition(all, { ...ready, type }, T0),
    [],
  );
  expect(conditions.map(({ type }) => type)).toEqual([
    'Ready',
    'Bootstrapped',
    'Delivering',
    'Stalled',
  ]);
});

test('setting one leaves the given list as it was', () => {
  const before = setCondition([], ready, T0);
  setCondition(before, { ...ready, status: 'False' }, T0);
  expect(before[0]?.status).toBe('True');
});

test('after a restart the conditions of the API server keep their transition times', () => {
  const status = { conditions: setCondition([], ready, T0), other: 1 };
  const parsed = parseConditions(JSON.parse(JSON.stringify(status)));
  expect(setCondition(parsed, ready, T0 + 3_600_000)).toEqual(status.conditions);
});

test.each([undefined, null, {}, { conditions: 'x' }, { conditions: [null, { type: 1 }, 7] }])(
  'a status without proper conditions has none: %j',
  (status) => {
    expect(parseConditions(status)).toEqual([]);
  },
);
