import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { useOwnTestCluster } from '../control-plane/test-cluster.ts';
import { TENANT_CLUSTERS } from './cloud.ts';
import { type Simulator, startSimulator } from './simulator.ts';
import { readTruth } from './truth.ts';

const POLICY = fileURLToPath(
  new URL('../../config/components/suspension-policy/policy.yaml', import.meta.url),
);

/** A test waits for pods that live for seconds. */
const PATIENCE = { timeout: 40_000, interval: 250 };

describe('the simulated cloud', () => {
  const cluster = useOwnTestCluster();
  const problems: string[] = [];
  let directory = '';
  let truthFile = '';
  let simulator: Simulator | undefined;

  const start = async (): Promise<void> => {
    simulator = await startSimulator({
      credentials: cluster.credentials,
      truthFile,
      log: (line) => problems.push(line),
    });
  };

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'simulator-'));
    truthFile = join(directory, 'truth.ndjson');
    await start();
  }, 60_000);
  afterAll(async () => {
    await simulator?.stop();
    await rm(directory, { recursive: true, force: true });
  });

  const items = async (path: string): Promise<readonly Item[]> =>
    (await cluster.call('GET', path))['items'] as readonly Item[];

  test('has a ready workload, a bound claim and a load balancer for every tenant cluster', async () => {
    const workloads = [
      ...(await items('/apis/apps/v1/statefulsets')),
      ...(await items('/apis/apps/v1/deployments')),
    ];
    expect(workloads.map(({ metadata }) => metadata.name).toSorted()).toEqual(
      TENANT_CLUSTERS.map(({ name }) => name).toSorted(),
    );
    expect(workloads.every(({ status }) => status['readyReplicas'] === 1)).toBe(true);
    const claims = await items('/api/v1/persistentvolumeclaims');
    expect(claims.every(({ status }) => status['phase'] === 'Bound')).toBe(true);
    for (const { name } of TENANT_CLUSTERS) {
      const mine = claims.filter(
        ({ metadata }) => metadata.labels?.['vcluster.loft.sh/managed-by'] === name,
      );
      expect(mine.length).toBeGreaterThan(0);
    }
  });

  test('has claims that are allocated with devices which their node publishes', async () => {
    const root = '/apis/resource.k8s.io/v1';
    const slices = await items(`${root}/resourceslices`);
    const published = slices.flatMap(({ spec }) => spec['devices'] as readonly { name: string }[]);
    const claims = await items(`${root}/resourceclaims`);
    const devices = claims.flatMap(({ status }) => {
      const { devices: given } = status['allocation'] as {
        readonly devices: { readonly results: readonly { readonly device: string }[] };
      };
      return given.results.map(({ device }) => device);
    });
    expect(devices.toSorted()).toEqual(['gpu-0', 'gpu-1', 'gpu-3-mig-3g40gb-9-0']);
    expect(published.map(({ name }) => name)).toEqual(expect.arrayContaining(devices));
  });

  test('has nodes that carry no not-ready taint, so that nothing is down for no reason', async () => {
    const nodes = await items('/api/v1/nodes');
    expect(nodes.length).toBeGreaterThanOrEqual(7);
    expect(nodes.flatMap(({ spec }) => spec['taints'] ?? [])).toEqual([]);
  });

  test('lets kubectl top read usage that moves', async () => {
    await vi.waitFor(async () => {
      expect(await cluster.kubectl(['top', 'pods', '-A', '--no-headers'])).toContain('api-0');
    }, PATIENCE);
    const read = async (): Promise<string> =>
      JSON.stringify(await items('/apis/metrics.k8s.io/v1beta1/pods'));
    const before = await read();
    await vi.waitFor(async () => expect(await read()).not.toBe(before), PATIENCE);
  }, 60_000);

  test('reports pods that ended as they were, also across a restart', async () => {
    await vi.waitFor(() => expect(readTruth(truthFile).length).toBeGreaterThan(2), PATIENCE);
    await simulator?.stop();
    const interrupted = (await burstPods()).filter(({ status }) => status['phase'] === 'Running');
    const recordedBefore = readTruth(truthFile).length;
    await start();
    await vi.waitFor(() => {
      const truth = readTruth(truthFile);
      const uids = truth.map(({ uid }) => uid);
      expect(new Set(uids).size).toBe(uids.length);
      for (const { metadata } of interrupted) expect(uids).toContain(metadata.uid);
      expect(truth.length).toBeGreaterThan(recordedBefore);
    }, PATIENCE);
    for (const pod of readTruth(truthFile)) {
      expect(pod.seconds).toBe((Date.parse(pod.finishedAt) - Date.parse(pod.startedAt)) / 1000);
      expect(pod.seconds).toBeGreaterThanOrEqual(0);
    }
    expect(problems).toEqual([]);
  }, 90_000);

  test('goes on where a tenant cluster is suspended, and says once that its pods are refused', async () => {
    const namespace = (labels: object): Promise<unknown> =>
      cluster.kubectl([
        'patch',
        'namespace',
        'tenant-trial',
        '--type=merge',
        `--patch=${JSON.stringify({ metadata: { labels } })}`,
      ]);
    const suspended = 'meterfeed.io/suspended';
    const reported = (): readonly string[] => problems.filter((line) => line.startsWith('trial: '));
    await cluster.kubectl(['apply', '--filename', POLICY]);
    await namespace({ [suspended]: 'true', 'suspended.meterfeed.io/trial': 'true' });
    await vi.waitFor(() => expect(reported()).toHaveLength(1), PATIENCE);
    expect(reported()[0]).toContain('tenant cluster is suspended: "trial"');
    // Its control plane's pod is there, and would not be let in either.
    await simulator?.stop();
    await start();
    await vi.waitFor(() => expect(reported()).toHaveLength(2), PATIENCE);
    await namespace({ [suspended]: null });
    await vi.waitFor(() => {
      expect(reported().slice(2)).toEqual(['trial: new pods are let in again']);
    }, PATIENCE);
    expect(problems).toEqual(reported());
  }, 120_000);

  const burstPods = (): Promise<readonly Item[]> =>
    items('/api/v1/namespaces/tenant-burst/pods?labelSelector=simulator/churn%3Djob');
});

interface Item {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly spec: Readonly<Record<string, unknown>>;
  readonly status: Readonly<Record<string, unknown>>;
}
