import { expect, test } from 'vitest';
import { WindowReports } from '../metering/windows/report-store.ts';
import type { WindowReport } from '../metering/windows/window-report.ts';
import { attributionProblems } from './known-meter.ts';

const report = (
  scopes: readonly string[],
  contestedNodes: WindowReport['contestedNodes'],
): WindowReport => ({
  windowStart: '2026-11-21T09:00:00Z',
  windowEnd: '2026-11-21T09:01:00Z',
  closedAt: '2026-11-21T09:01:03Z',
  durationMs: 1,
  scopes,
  events: 0,
  duplicates: 0,
  conflicts: 0,
  tenants: 0,
  tenantClusters: 0,
  backfilled: false,
  gaps: [],
  refused: [],
  unattributed: { total: 0, items: [] },
  contestedNodes,
  openReversalSeconds: 0,
  expiredReversalSeconds: 0,
});

const discovery = { problems: () => ['unknown plan: tenant-a: "gold"'] };

test('a node that two tenant clusters claim is a problem until a window without', () => {
  const contested = report(['pods', 'gpus'], [{ node: 'n1', tenantClusters: ['a', 'b'] }]);
  const reports = new WindowReports();
  const windows = { lastReport: (scope: string) => reports.last(scope) };
  reports.add(contested);
  // A scope that is closed by itself has not looked at nodes.
  reports.add(report(['volumes'], []));
  const problems = attributionProblems({ discovery, windows });
  expect(problems).toEqual([
    'unknown plan: tenant-a: "gold"',
    'node claimed by several tenant clusters: n1: "a, b": it is dedicated to none of them and its pods are billed as shared; leave the labels of one',
  ]);
  reports.add(report(['pods', 'gpus'], []));
  expect(attributionProblems({ discovery, windows })).toHaveLength(1);
});
