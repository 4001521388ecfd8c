import { expect, test } from 'vitest';
import { planOf } from '../scenarios.ts';
import { withKafka } from './plan.ts';

const PLANS = Array.from({ length: 200 }, (_, index) => planOf(index + 1)).filter(
  ({ month }) => month === undefined,
);

test('Kafka gets what would have happened to the destination whose place it takes, and nobody else gets it', () => {
  for (const plan of PLANS) {
    const second = plan.destinations[1];
    const weatherOf = (name: string | undefined, of = withKafka(plan)): number =>
      of.lives
        .flatMap(({ actions }) => actions)
        .filter((action) => action.do === 'weather' && action.destination === name).length;
    expect(withKafka(plan).destinations).toEqual([plan.destinations[0], 'kafka']);
    expect(weatherOf(second)).toBe(0);
    expect(weatherOf(plan.destinations[0])).toBe(weatherOf(plan.destinations[0], plan));
    expect(weatherOf('kafka')).toBe(weatherOf(second, plan) + (plan.seed % 5 === 0 ? 1 : 0));
  }
});

test('a seed means without Kafka what it meant', () => {
  for (const plan of PLANS) expect(plan.destinations).not.toContain('kafka');
});
