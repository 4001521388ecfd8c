import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { CONDITION_TYPES, type ConditionClaim, SILENT } from './conditions.ts';
import { destinationClaims, destinationSummary } from './destination-status.ts';
import { policyClaims } from './policy-status.ts';
import { summaryOf } from './summary.ts';
import { EMPTY_DISK, progressOf, tenantsOf, viewsOf, windowsOf } from './testing/facts.ts';
import type { DestinationProgress } from './views.ts';

const accepted = { kind: 'accepted' } as const;

const destination = (change: Partial<DestinationProgress>): string =>
  summaryOf(
    destinationClaims({
      specStatus: accepted,
      suspended: false,
      progress: progressOf('lago', change),
    }),
  );

function claim(change: Partial<ConditionClaim>): ConditionClaim {
  return { type: 'Drift', status: 'True', reason: 'SumsDiffer', message: 'It differs', ...change };
}

test('a column is rewritten with every number that moves', () => {
  const bad = { deadLetters: 2, delivered: 7, lagEvents: 3, lagSeconds: 9 };
  expect(destination(bad)).toBe('DeadLetters: events refused for good');
  const later = { deadLetters: 90, delivered: 8, lagEvents: 4, lagSeconds: 70 };
  expect(destination(later)).toBe(destination(bad));
  const gpus = (gpuSeconds: number): string => {
    const unattributed = () => ({ items: ['a/b'], gpuSeconds, gpuObjects: 1 });
    const windows = windowsOf({ lastWindowEnd: () => 0, unattributed });
    return summaryOf(policyClaims(accepted, viewsOf({ windows }), 60_000, 0));
  };
  expect(gpus(60)).toBe('GPUTimeUnattributed: GPU time is billed to nobody');
  expect(gpus(61)).toBe(gpus(60));
});

test('a warning hides that usage is lost', () => {
  const ledger = {
    stats: () => ({
      ...viewsOf().ledger.stats(),
      problems: ['segment 3: bad checksum'],
      disk: EMPTY_DISK,
    }),
  };
  const views = viewsOf({
    ledger,
    tenants: { ...tenantsOf(), problems: () => ['unknown plan: tenant-a: "gold"'] },
    windows: windowsOf({
      lastWindowEnd: () => 0,
      metricsFailure: () => ({ reason: 'HTTP 503', since: 0 }),
    }),
  });
  const summary = (now: number): string => summaryOf(policyClaims(accepted, views, 60_000, now));
  expect(summary(0)).toBe('LedgerDamaged: segment 3: bad checksum (+2 more)');
  expect(summary(3_600_000)).toBe('WindowsLate: Windows are not closed in time (+3 more)');
});

test('what reads as good is wrong, or the other way round', () => {
  expect(summaryOf([])).toBe('OK');
  const ready = { type: 'Ready', status: 'True', reason: 'InForce' } as const;
  const silent = [...SILENT].map((type) => claim({ ...ready, type: type as 'Stalled' }));
  expect(summaryOf([claim(ready), ...silent])).toBe('OK');
  expect(summaryOf([claim({ ...ready, status: 'Unknown', reason: 'Starting' })])).toBe(
    'Starting: It differs',
  );
});

test('a long cause makes rows of kubectl wrap, or half a character is shown', () => {
  const long = [claim({ message: '𝄞'.repeat(200) }), claim({ type: 'UnknownMetrics' })];
  const summary = summaryOf(long);
  expect(Array.from(summary)).toHaveLength(72);
  expect(summary).toMatch(/^Drift: 𝄞+… \(\+1 more\)$/u);
  expect(summaryOf([claim({ message: 'x'.repeat(65) })])).toBe(`Drift: ${'x'.repeat(65)}`);
  expect(summaryOf([claim({ message: 'HTTP 503; it is tried again' })])).toBe('Drift: HTTP 503');
});

test('the API calls a destination healthy that kubectl does not', () => {
  const status = progressOf('lago', { deadLetters: 2 });
  expect(destinationSummary(status)).toBe('DeadLetters: events refused for good');
  const problem = {
    reason: 'SecretNotFound',
    message: 'spec.webhook.secretRefs[0]: no such Secret: "gone"',
    inForce: true,
  };
  const refused = 'SecretNotFound: spec.webhook.secretRefs[0]: no such Secret: ';
  expect(destinationSummary({ ...status, problem })).toBe(`${refused}"… (+1 more)`);
  expect(destinationSummary({ ...status, problem: { ...problem, inForce: false } })).toBe(
    `${refused}"gone"`,
  );
  expect(destinationSummary({ ...status, suspended: true })).toBe(
    'Suspended: Delivery is suspended by spec.suspend (+1 more)',
  );
});

test('the documentation has another order of conditions, or lacks one', () => {
  const page = readFileSync(
    new URL('../../docs/reference/troubleshooting.md', import.meta.url),
    'utf8',
  );
  const [, section = ''] = page.split('\n## Conditions\n');
  const [table = ''] = section.split('\n## ');
  const found = table.split('\n').flatMap((line) => {
    const [, object = '', types = ''] = /^\| ([A-Za-z]*) ?\| ([^|]+) \|/.exec(line) ?? [];
    return [...types.matchAll(/`([A-Za-z]+)/g)]
      .slice(0, 1)
      .map(([, type = '']) => ({ object, type }));
  });
  const documented = new Set(found.map(({ type }) => type));
  expect(CONDITION_TYPES.filter((type) => !SILENT.has(type) && !documented.has(type))).toEqual([]);
  const ranks = found.map(({ object, type }) => ({
    object,
    type,
    rank: CONDITION_TYPES.findIndex((known) => known === type),
  }));
  const misplaced = ranks.filter(({ object, rank }, at) => {
    const before = ranks[at - 1];
    return rank < 0 || (object === '' && before !== undefined && before.rank > rank);
  });
  expect(misplaced).toEqual([]);
});
