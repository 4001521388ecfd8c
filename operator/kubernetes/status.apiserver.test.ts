import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { useTestCluster } from '../../e2e/control-plane/test-cluster.ts';
import { isRecord } from '../model/is-record.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import type { Connection } from './connection.ts';
import { EventRecorder } from './events.ts';
import { identify, resourcePath } from './resource.ts';
import { applyStatus, type StatusTarget } from './status-publisher.ts';
import { createCapturingLogger } from './testing/capturing-logger.ts';
import { connectWith } from './testing/connect.ts';
import { widget, WIDGET_CRD, WIDGETS } from './testing/widget.ts';

const cluster = useTestCluster();
let connection: Connection;

beforeAll(async () => {
  await cluster.installCRDs(WIDGET_CRD);
  connection = connectWith(cluster.kubeconfig);
});

afterAll(async () => {
  await connection.close();
});

async function create(name: string): Promise<StatusTarget> {
  const body = widget(name);
  const outcome = await connection.request(resourcePath(WIDGETS), { method: 'POST', body });
  const identity = outcome.kind === 'ok' ? identify(outcome.body) : undefined;
  if (identity === undefined) throw new Error(JSON.stringify(outcome));
  return { resource: WIDGETS, kind: 'Widget', name, uid: identity.uid };
}

async function statusOf(name: string): Promise<unknown> {
  const outcome = await connection.request(resourcePath(WIDGETS, name));
  return outcome.kind === 'ok' && isRecord(outcome.body) ? outcome.body['status'] : outcome;
}

const condition = (type: string) => ({
  type,
  status: 'True',
  reason: 'Tested',
  message: '',
  lastTransitionTime: '2026-01-01T00:00:00Z',
  observedGeneration: 1,
});

describe('server-side apply of a status', () => {
  test('a field left out the next time is removed, not left behind', async () => {
    const target = await create('left-out');
    await applyStatus(connection, target, { count: 1, lastError: 'x' });
    expect(await applyStatus(connection, target, { count: 2 })).toMatchObject({ kind: 'applied' });
    expect(await statusOf('left-out')).toEqual({ count: 2 });
  });

  test('a condition of another writer survives ours', async () => {
    const target = await create('shared');
    await connection.request(resourcePath(WIDGETS, 'shared', 'status'), {
      method: 'PATCH',
      contentType: 'application/apply-patch+yaml',
      query: { fieldManager: 'someone-else' },
      body: { ...widget('shared'), status: { conditions: [condition('Theirs')] } },
    });
    await applyStatus(connection, target, { conditions: [condition('Ready')] });
    await applyStatus(connection, target, { conditions: [] });
    expect(await statusOf('shared')).toEqual({ conditions: [condition('Theirs')] });
  });

  test('a deleted object is gone, also when another has taken its name', async () => {
    const target = await create('reborn');
    await connection.request(resourcePath(WIDGETS, 'reborn'), { method: 'DELETE' });
    expect(await applyStatus(connection, target, { count: 1 })).toEqual({ kind: 'gone' });
    await create('reborn');
    expect(await applyStatus(connection, target, { count: 1 })).toEqual({ kind: 'gone' });
  });

  test('a status that the schema refuses is a failure that says why', async () => {
    const target = await create('refused');
    const outcome = await applyStatus(connection, target, { conditions: 'none' });
    expect(outcome).toMatchObject({
      kind: 'failed',
      reason: expect.stringContaining('.status.conditions'),
    });
  });
});

describe('events', () => {
  test('the API server takes an event about a cluster-scoped object, once', async () => {
    const { uid } = await create('eventful');
    const logger = createCapturingLogger();
    const recorder = new EventRecorder({
      connection,
      clock: systemClock,
      logger,
      instance: 'meterfeed-0',
    });
    const event = {
      regarding: { apiVersion: 'test.meterfeed.io/v1', kind: 'Widget', name: 'eventful', uid },
      type: 'Warning',
      reason: 'DeliveryStopped',
      action: 'Deliver',
      note: `Höchstens ${'ü'.repeat(2_000)}`,
    } as const;
    recorder.record(event);
    recorder.record(event);
    await recorder.settled();
    expect(logger.lines).toEqual([]);
    const named = { ...event, reason: 'Named' };
    expect(await recorder.recordOnce(named, 'abc123')).toBe(true);
    expect(await recorder.recordOnce(named, 'abc123')).toBe(true);
    const listed = await connection.request('/apis/events.k8s.io/v1/namespaces/default/events');
    const items = listed.kind === 'ok' && isRecord(listed.body) ? listed.body['items'] : listed;
    const mine = Array.isArray(items)
      ? items.filter((item) => isRecord(item) && item['reason'] === 'DeliveryStopped')
      : [];
    const again = Array.isArray(items)
      ? items.filter((item) => isRecord(item) && item['reason'] === 'Named')
      : [];
    expect(again).toHaveLength(1);
    expect(mine).toMatchObject([
      { reportingController: 'meterfeed.io/operator', regarding: { uid }, type: 'Warning' },
    ]);
  });
});
