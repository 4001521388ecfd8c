import { describe, expect, test } from 'vitest';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { groupGaps } from './gap-groups.ts';
import {
  API_TOKEN as token,
  NOW,
  quietDiscovery,
  quietViews,
  startTestServer,
  testCluster,
  type TestServer,
} from './testing/test-server.ts';
import type { Gap } from './views.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

function gap(change: Partial<Gap> = {}): Gap {
  const stretch = { from: NOW - 10 * MINUTE, to: NOW - 5 * MINUTE };
  return { source: 'metrics', scope: 'cluster-a', ...stretch, reason: 'no answer', ...change };
}

async function getGaps(gaps: readonly Gap[], query = '') {
  const ledger = createMemoryLedger();
  await ledger.append({ events: [], windowEnd: NOW - MINUTE });
  await using server: TestServer = await startTestServer({
    ledger,
    views: {
      ...views(gaps),
      discovery: quietDiscovery({
        clusters: () =>
          ['a', 'b'].map((name) => ({
            ...testCluster(`cluster-${name}`, server.settings),
            tenant: name,
          })),
      }),
    },
  });
  return (await server.call('GET', `/api/v1/gaps${query}`, { token })).json;
}

function views(gaps: readonly Gap[]) {
  const { metering } = quietViews(() => {
    throw new Error('not requested');
  });
  return { metering: { ...metering, gaps: () => gaps } };
}

describe('gaps', () => {
  test('of one outage are one line, not one for each tenant cluster', async () => {
    const gaps = Array.from({ length: 120 }, (_, index) =>
      gap({ scope: `cluster-${index}`, reason: `namespace "tenant-${index}": forbidden` }),
    );
    expect(await getGaps(gaps)).toMatchObject({
      open: [],
      ended: [{ gaps: 120, scope_count: 120, reasons: 120, seconds: 300 }],
    });
  });

  test('that have ended are not shown as going on', async () => {
    const gaps = [gap(), gap({ scope: 'cluster-b', to: NOW - MINUTE })];
    expect(await getGaps(gaps)).toMatchObject({
      open: [{ scopes: ['cluster-b'], tenants: ['b'] }],
      ended: [{ scopes: ['cluster-a'], tenants: ['a'] }],
    });
  });

  test('of the same cause on another day are another line', async () => {
    const gaps = [gap(), gap({ from: NOW - 30 * HOUR, to: NOW - 29 * HOUR })];
    expect(groupGaps(gaps, NOW)).toHaveLength(2);
  });

  test('of another tenant are not laid at one’s door, those of everybody are', async () => {
    const gaps = [gap({ scope: 'cluster-b' }), gap({ source: 'pods', scope: 'pods' })];
    expect(await getGaps(gaps, '?tenant=a')).toMatchObject({ ended: [{ scopes: ['pods'] }] });
  });

  test('that do not bear on a metric are no hole in its chart', async () => {
    const gaps = [gap(), gap({ source: 'volumes', scope: 'volumes' })];
    const gpus = await getGaps(gaps, '?metric=tenant_gpu_hours');
    expect(gpus).toMatchObject({ open: [], ended: [] });
    const storage = await getGaps(gaps, '?metric=tenant_storage_gb_hours');
    expect(storage).toMatchObject({ ended: [{ source: 'volumes' }] });
  });

  test('of a range end where the range ends', async () => {
    const long = gap({ from: NOW - 48 * HOUR, to: NOW });
    expect(await getGaps([long], '?from=2026-11-20&to=2026-11-21')).toMatchObject({
      ended: [{ from: '2026-11-20T00:00:00Z', to: '2026-11-21T00:00:00Z', seconds: 86_400 }],
    });
  });
});
