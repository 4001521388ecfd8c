import { expect, test } from 'vitest';
import type { StepOutcome } from '../../destinations/destination.ts';
import type { MetricDefinition } from '../../model/catalog.ts';
import { createFakeDestination } from '../testing/fake-destination.ts';
import { Bootstrap } from './bootstrap.ts';

const { signal } = new AbortController();
const metric = (code: string): MetricDefinition => ({
  code,
  name: code,
  unit: 'hours',
  description: code,
  aggregationField: code,
  source: 'collector',
  informational: false,
  dimensions: [],
});

/** A destination that is prepared with the metrics `a` and `b`, and answers as it is told. */
function world() {
  const destination = createFakeDestination();
  const answers: (StepOutcome | Error)[] = [];
  destination.reactToBootstrap = () => {
    const answer = answers.shift() ?? { kind: 'done' };
    if (answer instanceof Error) throw answer;
    return answer;
  };
  let catalog = [metric('a'), metric('b')];
  const bootstrap = new Bootstrap(destination, { exclude: ['b'] }, () => catalog);
  return {
    bootstrap,
    answers,
    calls: destination.bootstraps,
    declare: (...codes: readonly string[]) => {
      catalog = codes.map(metric);
    },
  };
}

test('a destination is prepared for each event, or not for a metric that is new', async () => {
  const { bootstrap, calls, declare } = world();
  expect(bootstrap.isReady()).toBe(false);
  expect(await bootstrap.ensure(signal)).toBeUndefined();
  expect(await bootstrap.ensure(signal)).toBeUndefined();
  expect([bootstrap.isReady(), bootstrap.failures()]).toStrictEqual([true, 0]);
  expect(calls).toStrictEqual([['a']]);
  declare('a', 'b', 'c');
  expect(await bootstrap.ensure(signal)).toBeUndefined();
  expect(calls).toStrictEqual([['a'], ['a', 'c']]);
});

test('events are sent before the destination is prepared', async () => {
  const { bootstrap, answers, calls } = world();
  const retry = { kind: 'retry', reason: 'status 503', afterMs: 5_000 } as const;
  answers.push(retry, { kind: 'rejected', reason: 'status 403' }, new Error('a bug'));
  expect(await bootstrap.ensure(signal)).toStrictEqual(retry);
  expect(await bootstrap.ensure(signal)).toStrictEqual({ kind: 'blocked', reason: 'status 403' });
  expect(await bootstrap.ensure(signal)).toStrictEqual({
    kind: 'retry',
    reason: 'bootstrap failed: a bug',
  });
  expect([bootstrap.isReady(), bootstrap.failures()]).toStrictEqual([false, 3]);
  expect(await bootstrap.ensure(signal)).toBeUndefined();
  expect([bootstrap.isReady(), bootstrap.failures(), calls.length]).toStrictEqual([true, 0, 4]);
  answers.push(retry);
  expect(await bootstrap.probe(signal)).toStrictEqual(retry);
  expect(await bootstrap.probe(signal)).toStrictEqual({ kind: 'done' });
  expect([bootstrap.isReady(), bootstrap.failures(), calls.length]).toStrictEqual([true, 0, 6]);
});
