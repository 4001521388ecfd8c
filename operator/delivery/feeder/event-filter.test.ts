import { expect, test } from 'vitest';
import type { MetricDefinition } from '../../model/catalog.ts';
import { createEventFilter, unknownMetrics, wantedMetrics } from './event-filter.ts';

const metric = (code: string, informational = false): MetricDefinition => ({
  code,
  name: code,
  unit: 'hours',
  description: code,
  aggregationField: code,
  source: 'collector',
  informational,
  dimensions: [],
});
const KNOWN = [metric('hours'), metric('idle', true), metric('other')];
const find = (code: string) => KNOWN.find((one) => one.code === code);

test.each([
  ['nothing', undefined, ['hours', 'other']],
  ['what is left out', { exclude: ['other'] }, ['hours']],
  ['what it gets', { include: ['idle', 'other'] }, ['idle', 'other']],
  ['both', { include: ['idle', 'other'], exclude: ['other'] }, ['idle']],
])(
  'a destination gets other metrics than those it is prepared for, where settings say %s',
  (_, filter, want) => {
    const destination = { accepts: ({ informational }: MetricDefinition) => !informational };
    const wants = createEventFilter(destination, filter, find);
    const passing = KNOWN.filter(({ code, unit }) => wants({ metric: code, unit }));
    expect(passing.map(({ code }) => code)).toStrictEqual(want);
    expect(wantedMetrics(KNOWN, destination, filter)).toStrictEqual(passing);
  },
);

test('a metric that the catalogue has forgotten is offered as another one', () => {
  const offered: MetricDefinition[] = [];
  const destination = {
    accepts: (one: MetricDefinition) => {
      offered.push(one);
      return true;
    },
  };
  createEventFilter(destination, undefined, find)({ metric: 'gone', unit: 'tokens' });
  expect(offered).toStrictEqual([{ ...metric('gone'), unit: 'tokens', source: 'custom' }]);
});

test('a name of a metric is taken for a wrong one, or a wrong one is not noticed', () => {
  expect(unknownMetrics(undefined, find)).toStrictEqual([]);
  expect(unknownMetrics({ include: ['hours', 'typo'] }, find)).toStrictEqual(['typo']);
  expect(unknownMetrics({ exclude: ['typo', 'idle'] }, find)).toStrictEqual(['typo']);
  expect(unknownMetrics({ include: ['typo'], exclude: ['typo', 'late'] }, find)).toStrictEqual([
    'typo',
    'late',
  ]);
});
