import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, type RunnerTask, test } from 'vitest';
import type { Connection } from '../../operator/kubernetes/connection.ts';
import type { RawObject } from '../../operator/kubernetes/source.ts';
import { connectWith } from '../../operator/kubernetes/testing/connect.ts';
import { type FixtureKind, interceptFixtures } from '../../operator/kubernetes/testing/fixtures.ts';
import {
  createPodMetricsReader,
  type PodReading,
} from '../../operator/metering/windows/pod-metrics.ts';
import { useOwnTestCluster } from '../control-plane/test-cluster.ts';
import { CLAIM_CASES, HOST_CASES, idsOf, listed } from './case-ids.ts';
import {
  DRA_VERSIONS,
  type DraVersion,
  KINDS,
  storeFixtures,
  type StoredFixtures,
} from './stored-fixtures.ts';

/**
 * The case tables run here twice more. First as they are written, which tells what objects they are
 * about. A real API server is given those objects, and the operator's own watch brings them back: in
 * the second run they take the place of what was written, so that every row gives its numbers on
 * objects as an API server sends them, those of resource claims in every version of their API.
 *
 * The API server gives an object its uid, name and times of creation and deletion: those are the
 * fixture's again when it comes back. What has no object of its own, the readings of the metrics API
 * and outages, the rows tell by hand.
 */
const CLAIM_TABLES = ['metering/meters/claims', 'metering/meters/claim-use'];
const TABLES = [
  ...CLAIM_TABLES,
  'metering/meters/gpu-hours',
  'metering/meters/gpu-downtime',
  'metering/meters/hami-gpus',
  'metering/meters/fraction-gpus',
  'metering/meters/requests',
  'metering/meters/unattributed',
  'metering/meters/usage',
  'metering/meters/allocated-resources',
  'metering/meters/dedicated-node-hours',
  'metering/meters/dedicated-nodes',
  'metering/meters/capacity-types',
  'metering/meters/discovered-clusters',
  'metering/meters/synced-namespaces',
  'metering/meters/tenant-namespaces',
  'metering/meters/node-machines',
  'metering/meters/unseen-ends',
  'metering/meters/events',
  'discovery/discover',
  'discovery/discovery',
  'discovery/vcluster/synced-namespaces',
  'discovery/namespaces/namespaces',
  'metering/windows/collector',
  'metering/windows/restart',
  'metering/windows/failures',
];

const manifest = (file: string): string =>
  fileURLToPath(new URL(`../simulator/manifests/${file}`, import.meta.url));

const SERVED = DRA_VERSIONS.map((version) => `resource.k8s.io/${version}=true`).join(',');

const api = useOwnTestCluster({ apiServerFlags: { 'runtime-config': SERVED } });
const fixtures = new Map<FixtureKind, Map<string, RawObject>>();
const stores = new Map<FixtureKind, StoredFixtures>();
let connection: Connection;
let namespace: string;

beforeAll(async () => {
  await api.installCRDs(manifest('platform.yaml'));
  connection = connectWith(api.kubeconfig);
  namespace = await api.createNamespace('cases', { 'resource.kubernetes.io/admin-access': 'true' });
});

afterAll(async () => {
  await Promise.all([...stores.values()].map((store) => store.stop()));
  await connection.close();
});

/** The same tests once more: a module is another one by its query. */
async function tables(names: readonly string[], run: string): Promise<void> {
  const operator = fileURLToPath(new URL('../../operator', import.meta.url));
  for (const name of names) await import(`${operator}/${name}.test.ts?${run}`);
}

describe('as the tables write their objects', async () => {
  beforeAll(() => {
    interceptFixtures((kind, object) => {
      const ofKind = fixtures.get(kind) ?? new Map<string, RawObject>();
      ofKind.set(JSON.stringify(object), object);
      fixtures.set(kind, ofKind);
      return object;
    });
  });
  afterAll(() => interceptFixtures());
  await tables(TABLES, 'written');
});

describe('a real API server takes every object of the tables, and its list shows what its watch showed', () => {
  test.each(KINDS)(
    '%s',
    async (kind) => {
      const objects = [...(fixtures.get(kind)?.values() ?? [])];
      expect(objects.length).toBeGreaterThan(0);
      const store = storeFixtures({ api, connection, kind, namespace });
      stores.set(kind, store);
      const refused: string[] = [];
      for (const object of objects) {
        await store.write(object).catch((error: unknown) => {
          refused.push(`${String(error).slice(0, 600)} ${JSON.stringify(object).slice(0, 400)}`);
        });
      }
      expect(refused).toEqual([]);
      await store.arrived();
      expect(await store.differences()).toEqual([]);
    },
    120_000,
  );
});

function asStored(version: DraVersion): void {
  interceptFixtures((kind, object) => {
    const stored = stores.get(kind)?.find(object, version);
    if (stored !== undefined) return stored;
    throw new Error(`no API server has seen this of ${kind}: ${JSON.stringify(object)}`);
  });
}

for (const version of DRA_VERSIONS) {
  const names = version === DRA_VERSIONS[0] ? TABLES : CLAIM_TABLES;
  describe(`as a real API server sends them, claims and slices in ${version}`, async () => {
    beforeAll(() => asStored(version));
    afterAll(() => interceptFixtures());
    await tables(names, version);

    test('no row is left out', ({ task }) => {
      const rows = version === DRA_VERSIONS[0] ? Object.values(HOST_CASES).join(' ') : CLAIM_CASES;
      const passed = new Set(task.suite?.tasks.flatMap(passedRows));
      expect(listed(rows).filter((id) => !passed.has(id))).toEqual([]);
    });
  });
}

test('C01, C02: what the metrics API serves is read as the sum over the containers of a pod', async () => {
  await api.installCRDs(manifest('metrics.yaml'));
  const usages = {
    c01: [
      { cpu: '250m', memory: '512Mi' },
      { cpu: '123456789n', memory: '1048576Ki' },
    ],
    c02: [{ cpu: '123457u', memory: '524288001' }],
  };
  for (const [name, usage] of Object.entries(usages)) {
    await api.call('POST', `/apis/metrics.k8s.io/v1beta1/namespaces/${namespace}/pods`, {
      apiVersion: 'metrics.k8s.io/v1beta1',
      kind: 'PodMetrics',
      metadata: { name },
      timestamp: '2026-03-01T12:00:00Z',
      window: '15s',
      containers: usage.map((each, index) => ({ name: `c${index}`, usage: each })),
    });
  }
  const readings: PodReading[] = [];
  const { signal } = new AbortController();
  await createPodMetricsReader(connection).read((reading) => void readings.push(reading), signal);
  expect(readings).toEqual([
    { kind: 'usage', namespace, name: 'c01', cpu: 373_456_789, memory: 1_610_612_736 },
    { kind: 'usage', namespace, name: 'c02', cpu: 123_457_000, memory: 524_288_001 },
  ]);
});

/** The ids of the rows that were run and held, and of the headings over them. */
function passedRows(task: RunnerTask): readonly string[] {
  if (task.type === 'suite') return [...idsOf(task.name), ...task.tasks.flatMap(passedRows)];
  return task.result?.state === 'pass' ? idsOf(task.name) : [];
}
