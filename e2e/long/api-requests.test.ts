import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { AUDITED_GROUP } from '../control-plane/audit.ts';
import { useOwnTestCluster } from '../control-plane/test-cluster.ts';
import { OPERATOR_NAMESPACE } from '../local/custom-resources.ts';
import { type RunningOperator, startOperator } from '../local/operator-process.ts';
import { type RunFiles, runFiles } from '../local/run-directory.ts';
import { type ApiClient, createApiClient } from '../simulator/api-client.ts';
import { TENANT_CLUSTERS } from '../simulator/cloud.ts';
import { acceptPod, runContainers } from '../simulator/pod-lifecycle.ts';
import { podObject } from '../simulator/pods.ts';
import { type Simulator, startSimulator } from '../simulator/simulator.ts';
import { syncedMeta } from '../simulator/synced.ts';

const WINDOW_MS = 10_000;
const WINDOWS = 4;
const MORE_PODS = 150;

/** What a real API server says in its audit log that the operator asked of it. */
describe('the load on the API server', () => {
  const cluster = useOwnTestCluster({ audit: true });
  const ending = new AbortController();
  let files: RunFiles;
  let api: ApiClient;
  let simulator: Simulator;
  let operator: RunningOperator;

  beforeAll(async () => {
    files = runFiles(await mkdtemp(join(tmpdir(), 'api-requests-')));
    api = createApiClient(cluster.credentials, ending.signal);
    const metadata = { name: OPERATOR_NAMESPACE };
    await api.ensure({ apiVersion: 'v1', kind: 'Namespace', metadata });
    simulator = await startSimulator({
      credentials: cluster.credentials,
      truthFile: files.truth,
      log: (line) => console.error(line),
    });
    const kubeconfig = join(files.directory, 'audited');
    await writeFile(
      kubeconfig,
      await cluster.addUser('operator', [AUDITED_GROUP, 'system:masters']),
    );
    operator = await startOperator({
      files,
      kubeconfig,
      env: {
        REGION: 'local',
        ADAPTERS: 'noop',
        TENANT_API: 'false',
        COLLECTION_INTERVAL: `${WINDOW_MS / 1000}s`,
      },
      signal: AbortSignal.timeout(120_000),
    });
  }, 240_000);
  afterAll(async () => {
    await operator?.stop();
    await simulator?.stop();
    ending.abort();
    await api?.close();
    await rm(files.directory, { recursive: true, force: true });
  });

  const requests = (): readonly Request[] => {
    const lines = readFileSync(cluster.auditLogPath, 'utf8').split('\n').filter(Boolean);
    const events = lines.map((line) => JSON.parse(line) as AuditEvent);
    const own = events.filter(({ user }) => user.username === 'operator');
    return [...new Map(own.map((event) => [event.auditID, requestOf(event)])).values()];
  };

  test('is one list of each kind at the start, and does not grow with the pods', async () => {
    await delay(2 * WINDOW_MS);
    const lists = countsOf(requests().filter(({ verb }) => verb === 'list'));
    for (const kind of ['pods', 'nodes', 'persistentvolumeclaims', 'services', 'statefulsets']) {
      expect(lists.get(`list ${kind}`), `lists of ${kind}`).toBe(1);
    }
    // Nothing is ever asked for one tenant cluster's namespace, but the operator's own.
    const namespaces = new Set(requests().flatMap(({ namespace }) => namespace ?? []));
    expect([...namespaces]).toEqual([OPERATOR_NAMESPACE]);

    const few = await within(WINDOWS * WINDOW_MS);
    await addPods();
    const many = await within(WINDOWS * WINDOW_MS);
    console.error(`per window: ${few.length / WINDOWS}, then ${many.length / WINDOWS}`);
    expect(countsOf(few).get('list podmetrics')).toBeGreaterThan(0);
    for (const [request, count] of countsOf(many)) {
      expect(count, request).toBeLessThanOrEqual((countsOf(few).get(request) ?? 0) + 2);
    }
    expect(countsOf(many).get('list pods')).toBeUndefined();
  });

  async function within(ms: number): Promise<readonly Request[]> {
    const before = requests().length;
    await delay(ms);
    return requests().slice(before);
  }

  async function addPods(): Promise<void> {
    const [tenant] = TENANT_CLUSTERS;
    if (tenant === undefined) throw new Error('no tenant cluster');
    for (let index = 0; index < MORE_PODS; index += 1) {
      const meta = syncedMeta(tenant, `more-${index}`, 'default');
      const wanted = podObject(meta, 'cpu-1', { cpu: '10m', memory: '16Mi' }, 'Always');
      const { object } = await api.ensure(wanted);
      await acceptPod(api, object, Date.now());
      await runContainers(api, object, Date.now());
    }
  }
});

interface AuditEvent {
  readonly auditID: string;
  readonly verb: string;
  readonly user: { readonly username: string };
  readonly objectRef?: {
    readonly resource?: string;
    readonly namespace?: string;
    readonly apiGroup?: string;
  };
}

interface Request {
  readonly verb: string;
  readonly resource: string;
  readonly namespace?: string;
}

function requestOf({ verb, objectRef = {} }: AuditEvent): Request {
  const { resource = 'none', namespace, apiGroup } = objectRef;
  // Pods of the metrics API are other pods.
  const named = apiGroup === 'metrics.k8s.io' ? 'podmetrics' : resource;
  return { verb, resource: named, namespace };
}

function countsOf(requests: readonly Request[]): ReadonlyMap<string, number> {
  const groups = Map.groupBy(requests, ({ verb, resource }) => `${verb} ${resource}`);
  return new Map([...groups].map(([request, all]) => [request, all.length]));
}
