import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { useTestCluster } from '../../e2e/control-plane/test-cluster.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import type { Connection } from './connection.ts';
import { createRevisionSurvey } from './revision-survey.ts';
import { connectWith } from './testing/connect.ts';

const api = useTestCluster();
let connection: Connection;
let namespace: string;

beforeAll(async () => {
  connection = connectWith(api.kubeconfig);
  namespace = await api.createNamespace('survey');
});

afterAll(async () => {
  await connection.close();
});

test('W39: what changes while watches catch up is known within two seconds, though nothing else is written', async () => {
  const stop = new AbortController();
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  const create = async (): Promise<string> => {
    const { metadata } = await api.call('POST', path, { metadata: { generateName: 'quiet-' } });
    return (metadata as { resourceVersion: string }).resourceVersion;
  };
  const since = await create();
  const survey = createRevisionSurvey({ connection, paths: [path], clock: systemClock });
  await survey.learn(since, stop.signal);
  await systemClock.sleep(3_500);
  const before = Date.now();
  const version = await create();
  const after = Date.now();
  expect(before - survey.bracket(version).from).toBeLessThanOrEqual(2_000);
  expect(survey.bracket(version).from).toBeLessThanOrEqual(after);
  await systemClock.sleep(1_500);
  expect(survey.bracket(version).until).toBeGreaterThanOrEqual(before);
  expect(survey.bracket(version).until - survey.bracket(version).from).toBeLessThanOrEqual(2_000);
  stop.abort();
});

describe('writes of which the API server dates some', () => {
  /** More managers than the API server keeps apart: their entries are merged, and carry older dates. */
  const MANAGERS = 14;
  /** Of both objects: from the one before an old copy is put back. */
  const LAST_WRITES = 2 * 7;
  /** From the beginning of a write to the end of the next one, on a machine that has time for them. */
  const PROMPT_MS = 400;
  let path = '';
  let since = '';
  const written: { readonly version: string; readonly before: number; readonly after: number }[] =
    [];

  async function write(
    method: 'POST' | 'PUT' | 'DELETE',
    to: string,
    body?: object,
  ): Promise<Record<string, unknown>> {
    const before = Date.now();
    const object = await api.call(method, to, body);
    const { resourceVersion: version } = object['metadata'] as { resourceVersion: string };
    written.push({ version, before, after: Date.now() });
    await systemClock.sleep(90);
    return object;
  }

  async function change(name: string, by: string, data: object, metadata: object = {}) {
    const found = await api.call('GET', `${path}/${name}`);
    const next = { ...found, data, metadata: { ...(found['metadata'] as object), ...metadata } };
    return write('PUT', `${path}/${name}?fieldManager=${by}`, next);
  }

  /** Somebody else writes meanwhile, so that each has neighbours. */
  async function live(name: string): Promise<void> {
    const metadata = { name, finalizers: ['example.com/kept'] };
    const first = await write('POST', `${path}?fieldManager=first`, { metadata, data: {} });
    for (let turn = 0; turn < MANAGERS; turn += 1) {
      await change(name, `manager-${turn}`, { [`key-${turn}`]: 'x' });
    }
    await change(name, 'first', { all: 'anew' });
    // An old copy is put back with its dates, they are taken away, and put back once more.
    const { managedFields } = first['metadata'] as { readonly managedFields: unknown };
    await change(name, 'restorer', { all: 'anew' }, { managedFields });
    await change(name, 'first', { all: 'other' }, { managedFields: [{}] });
    await change(name, 'restorer', { all: 'other' }, { managedFields });
    await write('DELETE', `${path}/${name}`);
    await change(name, 'first', { all: 'last' });
  }

  beforeAll(async () => {
    path = `/api/v1/namespaces/${namespace}/configmaps`;
    const { metadata } = await api.call('GET', `${path}?limit=1`);
    ({ resourceVersion: since } = metadata as { resourceVersion: string });
    await Promise.all(['one', 'other'].map(live));
  }, 60_000);

  test('are each bracketed by them, none before it was stored, and all within two seconds', async () => {
    const stop = new AbortController();
    // What was written last has no successors that say when, whether that took a second or, on a machine that was held up, more.
    const leftAt = Date.now() - 1_000;
    const inOrder = written.toSorted((a, b) => Number(a.version) - Number(b.version));
    const succeeded = inOrder.slice(0, -LAST_WRITES).filter(({ after }) => after < leftAt);
    await systemClock.sleep(3_000);
    const survey = createRevisionSurvey({ connection, paths: [path], clock: systemClock });
    await survey.learn(since, stop.signal);
    stop.abort();
    expect(written).toHaveLength(2 * (MANAGERS + 7));
    for (const { version, before, after } of written) {
      const { from, until } = survey.bracket(version);
      expect(from).toBeLessThanOrEqual(after);
      expect(until).toBeGreaterThanOrEqual(before);
    }
    const heldUpMs = inOrder.reduce((sum, { after }, index) => {
      const { before } = inOrder[index - 1] ?? { before: after };
      return sum + Math.max(0, after - before - PROMPT_MS);
    }, 0);
    for (const { version } of succeeded) {
      const { from, until } = survey.bracket(version);
      expect(until - from).toBeLessThanOrEqual(2_000 + heldUpMs);
    }
  });
});
