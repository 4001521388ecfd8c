import type { HistoricalSeries } from '../../../e2e/prometheus/history.ts';
import type { TenantCluster } from '../../discovery/tenant-cluster.ts';
import { cluster } from '../../metering/meters/testing/objects.ts';

/**
 * Tenant clusters and their series, with everything in which combined and separate queries may
 * differ.
 */
export interface DifferentialWorld {
  readonly clusters: readonly TenantCluster[];
  readonly series: readonly HistoricalSeries[];
  /** A `--query.max-samples` that is enough for a few tenant clusters and not for all. */
  readonly samplesForSome: number;
}

/** Names that could break a regular expression or a quote, or match another tenant cluster. */
const NAMES = [
  'a',
  'a-etcd',
  'a-api',
  'prod1',
  '12345',
  'x.y',
  'xzy',
  'p|q',
  'p',
  'q',
  '.*',
  'he"llo',
  'back\\slash',
  "ap'os",
  '$1',
  '[a-z]+',
  'web-x-default',
  'ümlaut',
] as const;
const PLAIN = 24;

type Random = () => number;

export function differentialWorld(seed: number): DifferentialWorld {
  const random = createRandom(seed);
  const names = [...NAMES, ...Array.from({ length: PLAIN }, (_, index) => `t${index}`)];
  const clusters = names.map((name, index) =>
    cluster(
      name,
      { meterControlPlane: index % 5 === 4 },
      { namespace: `ns-${name}`, instance: `i-${index % 7}`, project: `p-${index}` },
    ),
  );
  const more = [
    // Two of the same name, two in the same namespace, one without a namespace here, one without an
    // instance.
    cluster('twin', {}, { namespace: 'ns-twin-1', instance: 'i-1', project: 'twin-1' }),
    cluster('twin', {}, { namespace: 'ns-twin-2', instance: 'i-2', project: 'twin-2' }),
    cluster('left', {}, { namespace: 'ns-flat', instance: 'i-3', project: 'flat' }),
    cluster('right', {}, { namespace: 'ns-flat', instance: 'i-4', project: 'flat' }),
    cluster(
      'own',
      {},
      { namespace: 'ns-own', source: 'external', instance: 'i-5', project: 'own' },
    ),
    cluster('nameless', {}, { namespace: 'ns-nameless' }),
    cluster('silent', {}, { namespace: 'ns-silent', instance: 'i-6', project: 'silent' }),
  ];
  const all = [...clusters, ...more];
  const series = all
    .filter(({ name }) => name !== 'silent')
    .flatMap((one) => [...egressOf(one, random), ...gpusOf(one, random)]);
  return {
    clusters: all,
    series: [...series, ...strangers(random)],
    samplesForSome: 700,
  };
}

/** A linear congruential generator: the same world for the same seed. */
function createRandom(seed: number): Random {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state / 2_147_483_648;
  };
}

const BYTES = 'container_network_transmit_bytes_total';

/** A counter with resets, gaps, an end or a beginning in the middle, or none of these. */
function counter(random: Random): HistoricalSeries['valueAt'] {
  const rate = random() * 10 ** Math.floor(random() * 9);
  const resetAt = random() < 0.3 ? Math.floor(random() * 360) : Infinity;
  const gapAt = random() < 0.3 ? Math.floor(random() * 360) : Infinity;
  const from = random() < 0.2 ? Math.floor(random() * 300) : 0;
  const until = random() < 0.2 ? Math.floor(random() * 360) : Infinity;
  const base = Math.floor(random() * 1e12);
  return (at) => {
    if (at < from || at > until || (at >= gapAt && at < gapAt + 50)) return undefined;
    return at < resetAt ? base + rate * at : rate * (at - resetAt) + 0.1;
  };
}

function platformLabels({ instance, project }: TenantCluster): Record<string, string> {
  if (instance === undefined) return {};
  return {
    vcluster_platform_instance: instance,
    ...(project === undefined ? {} : { vcluster_platform_project: project }),
  };
}

function egressOf(about: TenantCluster, random: Random): HistoricalSeries[] {
  const { name, namespace } = about;
  const platform = platformLabels(about);
  const sent = (pod: string, more: Record<string, string> = {}): HistoricalSeries => ({
    name: BYTES,
    labels: { namespace, pod, interface: 'eth0', id: `/kubepods/${pod}`, ...platform, ...more },
    valueAt: counter(random),
  });
  const pods = [
    ...Array.from({ length: 1 + Math.floor(random() * 6) }, (_, index) => {
      return `web-${index}-x-default-x-${name}`;
    }),
    // Its control plane, and pods that only look like it.
    `${name}-0`,
    `${name}-etcd-0`,
    `${name}-api-7d9c8b5f6-x2x4z`,
    `${name}-etcd-x-default-x-a`,
    'a-0',
    'p-1',
    'xay-0',
    'job-2vx9k',
    'batch-job-2vx9k',
    'web-x-default-x-a-0',
  ].filter(() => random() < 0.7);
  return pods.flatMap((pod) => {
    const own = sent(pod);
    const twice = { ...own, labels: { ...own.labels, job: 'again' } };
    const network = {
      name: 'kube_pod_info',
      labels: { namespace, pod, host_network: 'true', ...platform },
      valueAt: (at: number) => (at < 120 ? 1 : undefined),
    };
    return [
      own,
      ...(random() < 0.2 ? [twice] : []),
      ...(random() < 0.2 ? [sent(pod, { interface: 'net1' })] : []),
      // It moved: another sandbox of the same name, on another node.
      ...(random() < 0.2 ? [sent(pod, { id: `/kubepods/${pod}/2`, node: 'n2' })] : []),
      ...(random() < 0.1 ? [network] : []),
      ...(random() < 0.05 ? [sent(pod, { exported_namespace: 'ns-a' })] : []),
      ...(random() < 0.02 ? [{ ...sent(`nan-${pod}`), valueAt: () => Number.NaN }] : []),
    ];
  });
}

const MODELS = ['NVIDIA H100 80GB HBM3', 'NVIDIA A100-SXM4-40GB', ''] as const;

function gpusOf(about: TenantCluster, random: Random): HistoricalSeries[] {
  const { name, namespace } = about;
  const spelled: readonly Record<string, string>[] = [
    { namespace, pod: 'p' },
    { namespace: 'gpu-operator', exported_namespace: namespace },
    { vcluster: name, namespace: 'ml' },
    // Both labels, as if someone labels the host exporter's series.
    { namespace: 'gpu-operator', exported_namespace: namespace, vcluster: name },
    { namespace, vcluster: 'a' },
  ];
  const count = Math.floor(random() * 6);
  return Array.from({ length: count }, (_, index) => index).flatMap((index) => {
    const model = MODELS[Math.floor(random() * (random() < 0.9 ? 2 : 3))] ?? '';
    const device = {
      // Several spellings may name the same device.
      UUID: `GPU-${name}-${index % 4}`,
      Hostname: `n${index}`,
      ...(model === '' ? {} : { modelName: model }),
      ...platformLabels(about),
      ...spelled[Math.floor(random() * spelled.length)],
    };
    const gauge = (
      field: string,
      top: number,
      more: Record<string, string> = {},
    ): HistoricalSeries => {
      const level = random() * top;
      const swing = random() * (top - level);
      const until = random() < 0.2 ? Math.floor(random() * 360) : Infinity;
      return {
        name: field,
        labels: { ...device, ...more },
        valueAt: (at) => (at > until ? undefined : level + swing * Math.abs(Math.sin(at))),
      };
    };
    const instance = { GPU_I_PROFILE: '1g.10gb', GPU_I_ID: String(7 + index) };
    return [
      ...(random() < 0.7 ? [gauge('DCGM_FI_DEV_GPU_UTIL', 100)] : []),
      ...(random() < 0.5 ? [gauge('DCGM_FI_PROF_GR_ENGINE_ACTIVE', 1)] : []),
      ...(random() < 0.4 ? [gauge('DCGM_FI_PROF_GR_ENGINE_ACTIVE', 1, instance)] : []),
      ...(random() < 0.2 ? [gauge('DCGM_FI_DEV_GPU_UTIL', 0.01, instance)] : []),
      ...(random() < 0.2 ? [gauge('DCGM_FI_DEV_GPU_UTIL', 100, { pod: 'other' })] : []),
      ...(random() < 0.03 ? [gauge('DCGM_FI_DEV_GPU_UTIL', 400, { pod: 'broken' })] : []),
    ];
  });
}

/**
 * Series of no tenant cluster: namespaces that only look like a queried one, and no namespace at
 * all.
 */
function strangers(random: Random): HistoricalSeries[] {
  return ['', 'ns-', 'ns-xay', 'ns-abc', 'ns-p|', 'kube-system', 'ml', 'ns-t1x', 'xns-t1'].flatMap(
    (namespace): HistoricalSeries[] => [
      {
        name: BYTES,
        labels: { namespace, pod: namespace === '' ? '' : 'some', interface: 'eth0', id: '/' },
        valueAt: counter(random),
      },
      {
        name: 'DCGM_FI_DEV_GPU_UTIL',
        labels: { namespace, UUID: `GPU-${namespace}`, modelName: 'NVIDIA H100 80GB HBM3' },
        valueAt: () => 77,
      },
    ],
  );
}
