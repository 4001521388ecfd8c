import { expect, test } from 'vitest';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { testEvent } from '../ledger/testing/events.ts';
import type { Explanation } from '../metering/meters/explanation.ts';
import { API_TOKEN, quietViews, startTestServer, testSettings } from './testing/test-server.ts';
import type { Views } from './views.ts';

const token = API_TOKEN;
const event = { ...testEvent({ quantity: '0.016666667' }), source: 'collector' };
const { id } = event;
const start = Date.parse(event.window_start);

const explanation: Explanation = {
  id,
  measured: 0.0125,
  carried: 0.004166667,
  givenBack: 0,
  addsUp: true,
  subjects: [
    {
      kind: 'Pod',
      namespace: 'tenant-a',
      ownedBy: 'vcluster.loft.sh/managed-by=a',
      gpus: { type: 'NVIDIA-A10G', profile: 'timeslice-4', devices: 1, gpus: 0.25 },
      node: {
        capacityType: 'spot',
        gpuType: 'NVIDIA-A10G',
        decidedBy: { capacityType: 'karpenter.sh/capacity-type=spot', gpu: ['accelerator=a10g'] },
      },
    },
  ],
  nodes: ['n2'],
  shares: [
    [0, 'uid-p', 'p', 0, 15_000, 60_000, 0.0125, 0],
    [0, 'uid-p', 'p', 0, -15_000, 0, 0.004166667, 1],
  ],
  remainder: { count: 0, quantity: 0 },
};

async function serverWith(find: NonNullable<Views['explanations']>['find']) {
  const ledger = createMemoryLedger();
  const carried = { ...event, properties: { carried_seconds: 15, backfilled: true } };
  const pushed = { ...testEvent({ tenant: 'b' }), id: 'theirs:1', source: 'ingest:batch-importer' };
  await ledger.append({ events: [carried, pushed] });
  const gap = { source: 'pods', from: start, to: start + 10_000, reason: 'HTTP 503' };
  const views = quietViews(() => testSettings());
  const ofCluster = { ...gap, scope: 'tenant-vcluster-a-a' };
  const gaps = () => [
    ...['workloads', 'volumes'].map((scope) => ({ ...gap, scope })),
    { ...ofCluster, source: 'tenant-api', reason: 'refused' },
    // Instance hours need neither.
    { ...ofCluster, source: 'metrics' },
    { ...ofCluster, source: 'prometheus' },
  ];
  const metering = { ...views.metering, gaps };
  return startTestServer({ ledger, views: { explanations: { find }, metering } });
}

test('a number that Prometheus gave is shown with the query that it answered', async () => {
  const promql = 'sum(increase(sent[60s]))';
  await using server = await serverWith(async () => ({ kind: 'asked', promql }));
  const { status, json } = await server.call('GET', `/api/v1/events/${id}/explain`, { token });
  expect(status).toBe(200);
  expect(json).toMatchObject({
    source: 'collector',
    query: { promql, time: event.window_end },
    objects: [],
  });
});

test('a number is shown with its objects, spans, label decisions, rule, gaps and what was carried', async () => {
  await using server = await serverWith(async () => ({ kind: 'found', explanation }));
  const { status, json } = await server.call('GET', `/api/v1/events/${id}/explain`, { token });
  expect(status).toBe(200);
  expect(json).toMatchObject({
    event: { id, quantity: 0.016666667 },
    source: 'collector',
    rule: { documentation: expect.stringContaining('docs/explanation/metering.md') },
    measured: 0.0125,
    carried: 0.004166667,
    given_back: 0,
    adds_up: true,
    carried_seconds: 15,
    backfilled: true,
    gaps: [{ scope: 'workloads', reason: 'HTTP 503' }, { reason: 'refused' }],
    objects: [
      {
        kind: 'Pod',
        uid: 'uid-p',
        namespace: 'tenant-a',
        name: 'p',
        owned_by: 'vcluster.loft.sh/managed-by=a',
        from: '2026-11-21T09:00:15Z',
        to: '2026-11-21T09:01:00Z',
        seconds: 45,
        quantity: 0.0125,
        carried: false,
        gpus: { devices: 1, gpus: 0.25 },
        node: { name: 'n2', decided_by: { capacity_type: 'karpenter.sh/capacity-type=spot' } },
      },
      { from: '2026-11-21T08:59:45Z', to: '2026-11-21T09:00:00Z', carried: true },
    ],
    not_listed: { count: 0, quantity: 0 },
  });
});

test('what a client pushed names the client, and is not looked for among what was measured', async () => {
  await using server = await serverWith(async () => {
    throw new Error('asked');
  });
  const path = `/api/v1/events/${encodeURIComponent('theirs:1')}/explain`;
  const { status, json } = await server.call('GET', path, { token });
  expect(status).toBe(200);
  expect(json).toMatchObject({ source: 'ingest:batch-importer', objects: [] });
  expect(JSON.stringify(json)).toContain('Client \\"batch-importer\\" sent this event');
});

test('an id that nobody has is not found, and says where ids are', async () => {
  await using server = await serverWith(async () => ({ kind: 'found', explanation }));
  const { status, json } = await server.call('GET', '/api/v1/events/svc1_none/explain', { token });
  expect(status).toBe(404);
  expect(json).toEqual({
    error: 'no such event: ledger: "svc1_none": use an id of /api/v1/events',
  });
});

test('an event whose explanation is gone says why', async () => {
  const reason = 'it was dropped: explanations had no more room';
  await using server = await serverWith(async () => ({ kind: 'gone', reason }));
  const { status, json } = await server.call('GET', `/api/v1/events/${id}/explain`, { token });
  expect(status).toBe(410);
  expect(JSON.stringify(json)).toContain(reason);
});
