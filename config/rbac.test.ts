import { execFile } from 'node:child_process';
import { mkdtemp, rm, watch, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { useOwnTestCluster } from '../e2e/control-plane/test-cluster.ts';
import { manifest, webhookDestination } from '../e2e/local/custom-resources.ts';
import { startOperator } from '../e2e/local/operator-process.ts';
import { runFiles } from '../e2e/local/run-directory.ts';
import { logTail } from '../e2e/processes/managed-process.ts';
import { startReceiver } from '../e2e/receiver/receiver.ts';
import { startSimulator } from '../e2e/simulator/simulator.ts';
import { systemClock } from '../operator/telemetry/system-clock.ts';
import {
  type AuditedRequest,
  auditedRequests,
  deniedRequests,
  idleRights,
  rightsOf,
  serviceAccountKubeconfig,
  serviceAccountUser,
} from './testing/rights.ts';

const cluster = useOwnTestCluster({ audit: true });

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const ACCOUNT = ['meterfeed-system', 'meterfeed'] as const;
const USER = serviceAccountUser(...ACCOUNT);
const PATIENCE_MS = 60_000;
/** A pod on some node: nothing else ends it, and it is gone as soon as it is deleted. */
const RUNNING = {
  metadata: { name: 'running' },
  spec: {
    nodeName: 'some-node',
    terminationGracePeriodSeconds: 0,
    containers: [{ name: 'c', image: 'i' }],
  },
};

let directory = '';
let kubeconfig = '';

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'meterfeed-rbac-'));
  kubeconfig = join(directory, 'kubeconfig');
  await cluster.kubectl(['apply', '--kustomize', ROOT]);
  await writeFile(kubeconfig, await serviceAccountKubeconfig(cluster, ...ACCOUNT), { mode: 0o600 });
});

afterAll(async () => {
  await rm(directory, { recursive: true, force: true });
});

describe('the rights of the service account', () => {
  test('hold what is denied and what is idle to account', async () => {
    const kubectl = (...args: readonly string[]) =>
      promisify(execFile)(cluster.kubectlPath, ['--kubeconfig', kubeconfig, ...args]);
    await kubectl('get', 'pods', '--all-namespaces');
    await expect(kubectl('get', 'secrets', '--all-namespaces')).rejects.toThrow('forbidden');
    await expect(kubectl('delete', 'nodes', 'any')).rejects.toThrow('forbidden');

    const requests = await requestsOnce((made) => deniedRequests(made).length === 2);
    const idle = idleRights(await rightsOf(cluster, ...ACCOUNT), requests);
    expect(deniedRequests(requests)).toEqual(['delete nodes/any', 'list secrets']);
    expect(idle).not.toContain('list pods');
    expect(idle).toContain('list nodes');
    expect(idle).toContain('get leases.coordination.k8s.io/meterfeed in meterfeed-system');
  });

  test(
    'are what the operator needs, no less and no more',
    async () => {
      const before = (await auditedRequests(cluster, USER)).length;
      const receiver = await startReceiver({
        file: join(directory, 'received.ndjson'),
        secret: 'rbac',
        port: 0,
      });
      const simulator = await startSimulator({
        credentials: cluster.credentials,
        truthFile: join(directory, 'truth.ndjson'),
        log: () => {},
      });
      await cluster.call('POST', '/api/v1/namespaces/default/pods', RUNNING);
      const destination = webhookDestination('short-lived', { url: receiver.url, secret: 'rbac' });
      await cluster.kubectl(['apply', '--filename', '-'], manifest(destination));
      await cluster.kubectl(['apply', '--kustomize', `${ROOT}config/samples`]);
      const files = runFiles(directory);
      const start = () =>
        startOperator({
          files,
          kubeconfig,
          env: { COLLECTION_INTERVAL: '10s', RECONCILE_INTERVAL: '5s' },
          signal: AbortSignal.timeout(PATIENCE_MS),
        });
      let operator = await start();
      try {
        await becomesReady('short-lived').catch(async (error: unknown) => {
          const object = await cluster.kubectl(['get', 'bdest', 'short-lived', '--output', 'yaml']);
          throw new Error(`${object}\n${logTail(files.operatorLog)}`, { cause: error });
        });
        await cluster.kubectl(['delete', 'billingdestination', 'short-lived']);
        const rights = await rightsOf(cluster, ...ACCOUNT);
        const idle = (made: readonly AuditedRequest[]) => idleRights(rights, made.slice(before));
        // After a stop the Leases of nodes are read, where a window was closed before, and the Events of pods
        // that are gone, where the API server has forgotten what was before.
        await requestsOnce((made) => idle(made).length <= 2);
        await closesWindow(operator.address);
        await operator.stop();
        await cluster.call('DELETE', `/api/v1/namespaces/default/pods/${RUNNING.metadata.name}`);
        await cluster.stopApiServer();
        await cluster.startApiServer();
        operator = await start();
        const requests = await requestsOnce((made) => idle(made).length === 0);
        expect(deniedRequests(requests.slice(before))).toEqual([]);
        expect(idle(requests)).toEqual([]);
      } finally {
        await operator.stop();
        await simulator.stop();
        await receiver.stop();
      }
    },
    3 * PATIENCE_MS,
  );
});

async function becomesReady(destination: string): Promise<void> {
  const object = `billingdestination/${destination}`;
  await cluster.kubectl(['wait', '--for=condition=Ready', '--timeout=60s', object]);
}

async function closesWindow(address: string): Promise<void> {
  const signal = AbortSignal.timeout(PATIENCE_MS);
  for (;;) {
    const answer = await fetch(`${address}/api/v1/status`, { signal });
    const { last_window_end: end } = (await answer.json()) as { last_window_end?: string | null };
    if (typeof end === 'string') return;
    await systemClock.sleep(200, signal);
  }
}

/** The account's requests, as soon as they satisfy a condition, or all there are when patience ends. */
async function requestsOnce(
  condition: (requests: readonly AuditedRequest[]) => boolean,
): Promise<readonly AuditedRequest[]> {
  const signal = AbortSignal.timeout(PATIENCE_MS);
  const changes = watch(cluster.auditLogPath, { signal });
  let requests = await auditedRequests(cluster, USER);
  try {
    while (!condition(requests)) {
      const next = await changes.next();
      if (next.done === true) break;
      requests = await auditedRequests(cluster, USER);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
  return requests;
}
