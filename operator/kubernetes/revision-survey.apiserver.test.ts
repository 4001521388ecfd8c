import { afterAll, beforeAll, expect, test } from 'vitest';
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
