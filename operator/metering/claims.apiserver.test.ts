import { expect, test } from 'vitest';
import { useTestCluster } from '../../e2e/control-plane/test-cluster.ts';
import type { RawObject } from '../kubernetes/source.ts';
import { device, migDevice, result, wholeGpu } from './testing/claims.ts';
import { gpuNode, H100, N1 } from './testing/gpu-nodes.ts';
import { cluster, iso, OWN_LABELS } from './testing/objects.ts';
import { createWorld, total } from './testing/world.ts';

const api = useTestCluster();

const RESOURCE = '/apis/resource.k8s.io/v1';
const GPU = 'tenant_gpu_hours';
const HOUR = 3_600_000;
const MIG = migDevice(7, '1g.10gb');

interface Case {
  readonly id: string;
  readonly results: readonly RawObject[];
  /** GPU-equivalents. */
  readonly gpus: number;
  /** The whole GPU's when absent. */
  readonly sku?: string;
  readonly reserved?: false;
  readonly podLifetime?: 'scheduled';
  /** GPUs that the pod asks for by the name of an extended resource, and whether the claim serves it. */
  readonly extended?: { readonly amount: string; readonly served: boolean };
}

const CASES: readonly Case[] = [
  { id: 'D01', results: [result('gpu-0')], gpus: 1 },
  { id: 'D04', results: [0, 1, 2, 3].map((index) => result(`gpu-${index}`)), gpus: 4 },
  { id: 'D08', results: [result('gpu-0')], gpus: 0, reserved: false },
  {
    id: 'D08 scheduled',
    results: [result('gpu-0')],
    gpus: 1,
    reserved: false,
    podLifetime: 'scheduled',
  },
  { id: 'D10', results: [result(String(MIG['name']))], gpus: 1 / 7, sku: `${H100}-mig-1g.10gb` },
  { id: 'D11', results: [result('daemon', { driver: 'compute-domain.nvidia.com' })], gpus: 0 },
  {
    id: 'D12',
    results: [result('gpu-0'), result('nic-0', { driver: 'dra.net' })],
    gpus: 1,
  },
  { id: 'D13', results: [result('gpu-0')], gpus: 1, extended: { amount: '1', served: true } },
  { id: 'D15', results: [result('gpu-0')], gpus: 2, extended: { amount: '1', served: false } },
  { id: 'admin access', results: [result('gpu-0', { adminAccess: true })], gpus: 0 },
];

for (const one of CASES) {
  test(`${one.id} on objects of the API server: ${one.gpus} GPU-hours`, async () => {
    const labels = { 'resource.kubernetes.io/admin-access': 'true' };
    const namespace = await api.createNamespace('dra', labels);
    const node = `n-${namespace}`;
    const pod = await storePod(namespace, node, one);
    const claim = await storeClaim(namespace, node, one, pod);
    const slice = await storeSlice(node);
    const start = Math.ceil(Date.now() / HOUR) * HOUR;
    const world = createWorld();
    const { podLifetime = 'running' } = one;
    world.clusters([cluster('a', { podLifetime }, { namespace })], start - HOUR);
    world.node(gpuNode({ ...N1, name: node }), start - HOUR);
    world.slice(slice, start - 1);
    world.pod(pod, start - 1);
    world.resourceClaim(claim, start - 1);
    const { events } = world.close(start, start + HOUR);
    expect(total(events, GPU)).toBeCloseTo(one.gpus, 8);
    const skus = events.filter(({ metric }) => metric === GPU).map(({ sku }) => sku);
    expect(skus).toEqual(one.gpus === 0 ? [] : [one.sku ?? H100]);
  });
}

async function storeSlice(node: string): Promise<RawObject> {
  return api.call('POST', `${RESOURCE}/resourceslices`, {
    apiVersion: 'resource.k8s.io/v1',
    kind: 'ResourceSlice',
    metadata: { name: node },
    spec: {
      driver: 'gpu.nvidia.com',
      nodeName: node,
      pool: { name: node, generation: 1, resourceSliceCount: 1 },
      devices: [
        ...[0, 1, 2, 3, 4, 5, 6].map((index) => wholeGpu(index)),
        MIG,
        device('gpu-vfio-7', { type: 'vfio', uuid: 'GPU-7' }),
      ],
    },
  });
}

async function storePod(namespace: string, node: string, one: Case): Promise<RawObject> {
  const path = `/api/v1/namespaces/${namespace}/pods`;
  const { extended } = one;
  const amount = extended === undefined ? {} : { 'nvidia.com/gpu': extended.amount };
  const pod = await api.call('POST', path, {
    metadata: { name: 'p', labels: OWN_LABELS },
    spec: {
      nodeName: node,
      resourceClaims: [{ name: 'gpu', resourceClaimName: 'c' }],
      containers: [
        { name: 'main', image: 'i', resources: { limits: amount, claims: [{ name: 'gpu' }] } },
      ],
    },
  });
  const startedAt = iso(Date.now());
  const served = {
    extendedResourceClaimStatus: {
      resourceClaimName: 'c',
      requestMappings: [
        { containerName: 'main', resourceName: 'nvidia.com/gpu', requestName: 'gpu' },
      ],
    },
  };
  return api.call('PUT', `${path}/p/status`, {
    ...pod,
    status: {
      phase: 'Running',
      containerStatuses: [
        {
          name: 'main',
          image: 'i',
          imageID: 'i',
          ready: true,
          restartCount: 0,
          state: { running: { startedAt } },
        },
      ],
      ...(extended?.served === true ? served : {}),
    },
  });
}

async function storeClaim(
  namespace: string,
  node: string,
  one: Case,
  pod: RawObject,
): Promise<RawObject> {
  const path = `${RESOURCE}/namespaces/${namespace}/resourceclaims`;
  const adminAccess = one.results.some((each) => each['adminAccess'] === true);
  const claim = await api.call('POST', path, {
    metadata: { name: 'c', labels: OWN_LABELS },
    spec: {
      devices: {
        requests: [
          {
            name: 'gpu',
            exactly: {
              deviceClassName: 'gpu',
              allocationMode: 'All',
              ...(adminAccess ? { adminAccess } : {}),
            },
          },
        ],
      },
    },
  });
  const { uid } = pod['metadata'] as { readonly uid: string };
  const selector = { key: 'metadata.name', operator: 'In', values: [node] };
  return api.call('PUT', `${path}/c/status`, {
    ...claim,
    status: {
      allocation: {
        devices: { results: one.results.map((each) => ({ ...each, pool: node })) },
        nodeSelector: { nodeSelectorTerms: [{ matchFields: [selector] }] },
      },
      ...(one.reserved === false ? {} : { reservedFor: [{ resource: 'pods', name: 'p', uid }] }),
    },
  });
}
