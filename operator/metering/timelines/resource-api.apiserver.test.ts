import { afterEach, describe, expect, test, vi } from 'vitest';
import { useOwnTestCluster } from '../../../e2e/control-plane/test-cluster.ts';
import { Reflector } from '../../kubernetes/reflector.ts';
import { preferServedVersion } from '../../kubernetes/served-version.ts';
import type { RawObject } from '../../kubernetes/source.ts';
import { createCapturingLogger } from '../../kubernetes/testing/capturing-logger.ts';
import { connectWith } from '../../kubernetes/testing/connect.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import { projectResourceClaim } from './resource-claim.ts';
import { projectResourceSlice, type ResourceSliceView } from './resource-slice.ts';

const GROUP = 'resource.k8s.io';
const VERSIONS = ['v1', 'v1beta2', 'v1beta1'];
const only = (...served: readonly string[]): string =>
  VERSIONS.map((version) => `${GROUP}/${version}=${served.includes(version)}`).join(',');

/** Read again whenever the API server is started. */
const flags: Record<string, string> = { 'runtime-config': only(...VERSIONS) };
const api = useOwnTestCluster({ apiServerFlags: flags });

const PATIENCE = { timeout: 20_000, interval: 50 };
const ends: (() => Promise<void>)[] = [];
async function endAll(): Promise<void> {
  for (const end of ends.splice(0)) await end();
}
afterEach(endAll);

async function serve(...versions: readonly string[]): Promise<void> {
  await api.stopApiServer();
  flags['runtime-config'] = only(...versions);
  await api.startApiServer();
}

const text = (value: string) => ({ string: value });

function sliceObject(name: string, version: string): RawObject {
  const device = {
    attributes: {
      type: text('mig'),
      profile: text('1g.10gb'),
      productName: text('NVIDIA H100 80GB HBM3'),
      parentUUID: text('GPU-0'),
    },
    capacity: { memory: { value: '10Gi' } },
  };
  const placed = version === 'v1beta1' ? { basic: device } : device;
  return {
    apiVersion: `${GROUP}/${version}`,
    kind: 'ResourceSlice',
    metadata: { name },
    spec: {
      driver: 'gpu.nvidia.com',
      nodeName: 'n1',
      pool: { name: 'n1', generation: 3, resourceSliceCount: 1 },
      devices: [{ name: 'gpu-0-mig-1g10gb-19-0', ...placed }],
    },
  };
}

/** Watches slices until the test ends. */
function watchSlices(kubeconfig = api.kubeconfig) {
  const connection = connectWith(kubeconfig);
  const deleted: string[] = [];
  const stop = new AbortController();
  const source = new Reflector<ResourceSliceView>({
    connection: preferServedVersion({ connection, group: GROUP, versions: VERSIONS }),
    resource: { group: GROUP, version: 'v1', plural: 'resourceslices' },
    project: projectResourceSlice,
    handlers: [{ upserted: () => undefined, deleted: ({ name }) => void deleted.push(name) }],
    clock: systemClock,
    random: Math.random,
    logger: createCapturingLogger(),
    timings: { backoffBase: 50, backoffCap: 500, absentProbe: 200 },
  });
  const running = source.run(stop.signal);
  ends.push(async () => {
    stop.abort();
    await running;
    await connection.close();
  });
  return { source, deleted, ready: source.ready(stop.signal) };
}

describe('the API of Dynamic Resource Allocation', () => {
  test('reads the same from a slice and from a claim in each of its versions', async () => {
    await api.call('POST', `/apis/${GROUP}/v1/resourceslices`, sliceObject('all', 'v1'));
    const namespace = await api.createNamespace('claims');
    const claims = (version: string) =>
      `/apis/${GROUP}/${version}/namespaces/${namespace}/resourceclaims`;
    const claim = await api.call('POST', claims('v1'), {
      apiVersion: `${GROUP}/v1`,
      kind: 'ResourceClaim',
      metadata: { name: 'c', labels: { 'vcluster.loft.sh/managed-by': 'a' } },
      spec: {
        devices: {
          requests: [{ name: 'gpu', exactly: { deviceClassName: 'gpu.nvidia.com', count: 1 } }],
        },
      },
    });
    await api.call('PUT', `${claims('v1')}/c/status`, {
      ...claim,
      status: {
        allocation: {
          devices: {
            results: [{ request: 'gpu', driver: 'gpu.nvidia.com', pool: 'n1', device: 'gpu-0' }],
          },
          nodeSelector: {
            nodeSelectorTerms: [
              { matchFields: [{ key: 'metadata.name', operator: 'In', values: ['n1'] }] },
            ],
          },
        },
        reservedFor: [{ resource: 'pods', name: 'p', uid: 'pod-uid' }],
      },
    });
    for (const version of VERSIONS) {
      const slice = await api.call('GET', `/apis/${GROUP}/${version}/resourceslices/all`);
      const [device] = projectResourceSlice(slice)?.devices.values() ?? [];
      expect(device).toEqual({
        name: 'gpu-0-mig-1g10gb-19-0',
        profile: 'mig-1g.10gb',
        product: 'NVIDIA H100 80GB HBM3',
        gpu: 'GPU-0',
      });
      const view = projectResourceClaim(await api.call('GET', `${claims(version)}/c`));
      expect(view?.allocation).toEqual({
        devices: [{ driver: 'gpu.nvidia.com', pool: 'n1', device: 'gpu-0' }],
        node: 'n1',
      });
      expect(view?.pods).toEqual(['pod-uid']);
      expect(view?.labels).toEqual({ managedBy: 'a' });
    }
  });

  test('is spoken in the version that is served, and an upgrade takes nothing away', async () => {
    await serve('v1beta1');
    const beta = `/apis/${GROUP}/v1beta1/resourceslices`;
    await api.call('POST', beta, sliceObject('before', 'v1beta1'));
    const { source, deleted, ready } = watchSlices();
    await ready;
    expect(source.find('', 'before')?.devices.size).toBe(1);

    await serve('v1');
    await api.call('POST', `/apis/${GROUP}/v1/resourceslices`, sliceObject('after', 'v1'));
    await vi.waitFor(() => expect(source.find('', 'after')).toBeDefined(), PATIENCE);
    expect(source.find('', 'before')?.devices.size).toBe(1);
    expect(source.health().state).toBe('synced');
    expect(deleted).toEqual([]);
  }, 60_000);

  test('that is forbidden is a failure, and never taken for absent', async () => {
    const { source, ready } = watchSlices(await api.addUser('nobody'));
    const end = ready.catch((error: unknown) => String(error));
    await vi.waitFor(() => expect(source.health().state).toBe('failing'), PATIENCE);
    expect(source.health().reason).toMatch(/^HTTP 403 Forbidden: resourceslices/);
    await endAll();
    expect(await end).toMatch(/aborted$/);
  });

  test('that is not served is no failure, and is found when it comes', async () => {
    await serve();
    const { source, ready } = watchSlices();
    await ready;
    expect(source.health().state).toBe('absent');
    await serve('v1beta2');
    await vi.waitFor(() => expect(source.health().state).toBe('synced'), PATIENCE);
    expect(source.size).toBeGreaterThan(0);
  }, 60_000);
});
