import { expect, test } from 'vitest';
import type { GpuReport } from './gpu-report.ts';
import { type ReportLimits, WindowReports } from './report-store.ts';
import type { WindowReport } from './window-report.ts';

const START = Date.UTC(2026, 2, 1, 8);
const MINUTE = 60_000;

/**
 * A report of the window that ends so many minutes after the start. Reports of one window differ by
 * `closing`.
 */
function report(minute: number, closing = 0, more: Partial<WindowReport> = {}): WindowReport {
  const end = START + minute * MINUTE;
  return {
    windowStart: new Date(end - MINUTE).toISOString(),
    windowEnd: new Date(end).toISOString(),
    closedAt: new Date(end + 3_000 + closing * 60).toISOString(),
    durationMs: 60,
    scopes: ['tenant-api'],
    tenantApis: 5,
    events: 40,
    duplicates: 0,
    conflicts: 0,
    tenants: 5,
    tenantClusters: 200,
    backfilled: false,
    gaps: [],
    refused: [],
    unattributed: { total: 0, items: [] },
    contestedNodes: [],
    openReversalSeconds: 0,
    expiredReversalSeconds: 0,
    ...more,
  };
}

function gpusOf(count: number): GpuReport {
  const seconds = { gpuType: 'H100', installed: 480, billed: 480, idle: 0, downtime: 0, system: 0 };
  const row = { ...seconds, overlap: 0, carried: 0, unaccounted: 0 };
  const nodes = Array.from({ length: count }, (_, index) => ({ node: `gpu-${index}`, ...row }));
  return { models: [row], nodes };
}

const LIMITS: ReportLimits = { windows: 10, characters: 1e9, nodeWindows: 2, nodeRows: 100 };

/** A store with the ledger's records of it. */
function open(limits?: Partial<ReportLimits>) {
  const reports = new WindowReports({ ...LIMITS, ...limits });
  const records = new Map<string, string>();
  const add = (next: WindowReport): void => {
    for (const { key, value } of reports.add(next)) {
      if (value === undefined) records.delete(key);
      else records.set(key, value);
    }
    expect(records.size).toBe([...reports.list()].length);
  };
  return { reports, records, add };
}

function minutesOf(reports: WindowReports): readonly number[] {
  const ends = reports.list().map(({ windowEnd }) => (Date.parse(windowEnd) - START) / MINUTE);
  return [...new Set(ends)].toReversed();
}

test('windows that are closed in forty turns push the reports of the day before out no sooner', () => {
  const { reports, add } = open();
  for (let minute = 1; minute <= 12; minute += 1) {
    for (let closing = 0; closing < 40; closing += 1) add(report(minute, closing));
  }
  expect(minutesOf(reports)).toEqual([3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
  expect([...reports.list()]).toHaveLength(400);
});

test('reports of a day are read as they were, whether they are packed by then or not', () => {
  const { reports } = open({ windows: 1_440 });
  const all = Array.from({ length: 1_500 }, (_, index) =>
    report(index + 1, 0, { events: index, refused: [`not a quantity: "${index}\u0000é€\n"`] }),
  );
  for (const next of all) reports.add(next);
  expect([...reports.list()]).toEqual(all.slice(-1_440).toReversed());
});

test('large reports do not fill the memory and the ledger: the oldest go, the newest stays', () => {
  const { reports, records, add } = open({ characters: 100_000 });
  const refused = Array.from(
    { length: 20 },
    (_, index) => `not a quantity: ${'x'.repeat(970)}${index}`,
  );
  for (let minute = 1; minute <= 9; minute += 1) add(report(minute, 0, { refused }));
  const characters = [...records.values()].reduce((sum, { length }) => sum + length, 0);
  expect(characters).toBeLessThanOrEqual(100_000);
  expect(minutesOf(reports)).toEqual([6, 7, 8, 9]);
  add(report(10, 0, { refused: Array.from({ length: 10 }, () => refused).flat() }));
  expect(minutesOf(reports)).toEqual([10]);
});

test('GPU nodes of the newest windows are shown, however many times those were closed in part', () => {
  const { reports, add } = open();
  for (let minute = 1; minute <= 4; minute += 1) {
    for (let closing = 0; closing < 10; closing += 1)
      add(report(minute, closing, { gpus: gpusOf(4) }));
  }
  const withNodes = [...reports.list()].filter(({ gpus }) => gpus?.nodes !== undefined);
  expect(new Set(withNodes.map(({ windowEnd }) => windowEnd)).size).toBe(2);
  expect(withNodes).toHaveLength(20);
  expect(reports.list().every(({ gpus }) => gpus?.models.length === 1)).toBe(true);
});

test('rows of thousands of GPU nodes are stored for fewer windows, and never as records', () => {
  const { reports, records, add } = open({ nodeWindows: 30 });
  for (let minute = 1; minute <= 5; minute += 1) add(report(minute, 0, { gpus: gpusOf(40) }));
  const rows = reports.list().map(({ gpus }) => gpus?.nodes?.length ?? 0);
  expect([...rows]).toEqual([40, 40, 0, 0, 0]);
  add(report(6, 0, { gpus: gpusOf(500) }));
  expect(reports.list().next().value?.gpus?.nodes).toHaveLength(500);
  expect([...records.values()].join('')).not.toContain('gpu-1');
});

test('a restart that finds more reports than fit deletes the surplus, in the ledger too', () => {
  const before = open({ windows: 1_000 });
  for (let minute = 1; minute <= 50; minute += 1) before.add(report(minute));
  const after = new WindowReports(LIMITS);
  after.restore(before.records);
  expect([...after.list()]).toHaveLength(50);
  const changes = after.add(report(51));
  expect(changes.filter(({ value }) => value === undefined)).toHaveLength(41);
  expect(minutesOf(after)).toEqual([42, 43, 44, 45, 46, 47, 48, 49, 50, 51]);
});

test('what the newest window with GPUs found is known after a restart, however long ago that was', () => {
  const before = open();
  before.add(report(1, 0, { scopes: ['gpus'], gpus: gpusOf(4) }));
  for (let minute = 2; minute <= 5; minute += 1) before.add(report(minute));
  const after = new WindowReports(LIMITS);
  after.restore(before.records);
  for (const reports of [before.reports, after]) {
    expect(reports.last('gpus')).toEqual({
      ...report(1, 0, { scopes: ['gpus'] }),
      gpus: { models: gpusOf(4).models },
    });
    expect(reports.last('volumes')).toBeUndefined();
  }
});

test('a reader of the records of a day takes up a new one without reading the others again', () => {
  const { records, add } = open({ windows: 1_000 });
  for (let minute = 1; minute <= 20; minute += 1) add(report(minute));
  const reader = new WindowReports(LIMITS);
  reader.restore(records);
  reader.trim();
  expect(minutesOf(reader)).toEqual([11, 12, 13, 14, 15, 16, 17, 18, 19, 20]);
  add(report(21));
  const known = [...records].slice(10, 20).map(([key]) => [key, 'not read'] as const);
  reader.restore([...known, ...[...records].slice(20)]);
  reader.trim();
  expect(minutesOf(reader)).toEqual([12, 13, 14, 15, 16, 17, 18, 19, 20, 21]);
});

const REPORT_OF_VERSION_1 =
  '{"v":1,"report":{"windowStart":"2026-03-01T08:00:00.000Z","windowEnd":"2026-03-01T08:01:00.000Z","closedAt":"2026-03-01T08:01:03.000Z","durationMs":60,"scopes":["gpus","tenant-api"],"events":1,"duplicates":0,"conflicts":0,"tenants":1,"tenantClusters":1,"backfilled":false,"gaps":[{"source":"own-nodes","scope":"a","from":1,"to":2,"reason":"r"}],"refused":[],"unattributed":{"total":0,"items":[]},"gpus":{"models":[],"ownNodes":[{"gpuType":"H100","installed":480}]},"contestedNodes":[],"ownNodeProblems":["flaps"],"openCreditSeconds":7,"unsettledCreditSeconds":3}}';

test('the GPUs of private nodes, and what was billed too much, are missing in reports of before an upgrade', () => {
  const reports = new WindowReports(LIMITS);
  reports.restore([['window-report/1', REPORT_OF_VERSION_1]]);
  for (const found of [reports.last('tenant-api'), ...reports.list()]) {
    expect(found).toMatchObject({
      gaps: [{ source: 'private-nodes' }],
      gpus: { models: [], privateNodes: [{ gpuType: 'H100', installed: 480 }] },
      privateNodeProblems: ['flaps'],
      openReversalSeconds: 7,
      expiredReversalSeconds: 3,
    });
  }
});

test('a report of a later version is misread', () => {
  const reports = new WindowReports(LIMITS);
  reports.restore([['window-report/1', REPORT_OF_VERSION_1.replace('"v":1', '"v":9')]]);
  expect([...reports.list()]).toEqual([]);
});
