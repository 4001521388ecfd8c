import type { PrometheusSettings } from '../settings/settings.ts';

/**
 * Templates of the queries that apply if no setting replaces them
 * (docs/explanation/prometheus.md#measured-by-prometheus).
 */
interface BuiltInQueries {
  /** Bytes that left the tenant cluster's pods. */
  readonly egress: string;
  /** Average percent by model. */
  readonly utilization: string;
  /** How many GPUs and GPU instances the average covers, by model. */
  readonly devices: string;
}

/** What the built-in queries need to know about a tenant cluster. */
export interface BuiltInSubject {
  /** Its control plane's traffic is charged (METER_CONTROL_PLANE). */
  readonly meterControlPlane: boolean;
  /** It has a namespace on the host cluster. */
  readonly onHost: boolean;
  /** No other tenant cluster has its name, so an external label may select it. */
  readonly uniqueName: boolean;
}

const BY_NAMESPACE = 'namespace="{{namespace}}",exported_namespace=""';
/** If Prometheus does not honour an exporter's labels, `namespace` is the exporter's own. */
const BY_EXPORTED_NAMESPACE = 'exported_namespace="{{namespace}}"';
/** The label of telemetry from inside a tenant cluster with private nodes. */
const BY_EXTERNAL_LABEL = 'vcluster="{{vcluster}}"';
/**
 * Instance names are unique only within their project. The platform's query proxy accepts only `=`
 * for these labels.
 */
const BY_PLATFORM_INSTANCE =
  'vcluster_platform_instance="{{instance}}",vcluster_platform_project="{{project}}"';

/** What follows the tenant cluster's name in the names of its control plane pods. */
export const CONTROL_PLANE_ENDING = '(-etcd|-api|-controller)?-([0-9]+|[a-z0-9]+-[a-z0-9]{5})';
/**
 * Names of a tenant cluster's control plane pods. Their StatefulSet or Deployment has its name. A
 * pod that is synced from inside ends in `-x-<namespace>-x-<name>` or in ten digits of a hash.
 */
const CONTROL_PLANE_PODS = `{{vcluster}}${CONTROL_PLANE_ENDING}`;

const WINDOW = '{{window}}';

/** Long enough to find a host-network pod that is gone, in windows of every size. */
const POLL_BACK = '1h';

/**
 * The built-in queries of a preset. Egress is charged, so by default only the host cluster's own
 * telemetry counts: a tenant's pod may set a label such as `exported_namespace`.
 */
export function builtInQueries(
  preset: PrometheusSettings['preset'],
  { meterControlPlane, onHost, uniqueName }: BuiltInSubject,
): BuiltInQueries {
  if (preset === 'vcluster-platform') {
    const pods = 'pod!=""';
    return {
      egress: egressOf({ series: BY_PLATFORM_INSTANCE, pods, window: WINDOW }),
      ...utilizationOf([BY_PLATFORM_INSTANCE]),
    };
  }
  const pods = meterControlPlane ? 'pod!=""' : `pod!="",pod!~"${CONTROL_PLANE_PODS}"`;
  return {
    egress: egressOf({ series: BY_NAMESPACE, pods, window: WINDOW }),
    ...utilizationOf([
      ...(onHost ? [BY_NAMESPACE, BY_EXPORTED_NAMESPACE] : []),
      ...(uniqueName || !onHost ? [BY_EXTERNAL_LABEL] : []),
    ]),
  };
}

/**
 * Egress of pods. A pod on the host's network reports the traffic of the complete node, so
 * kube-state-metrics identifies these pods and the query leaves them out. A series that is scraped
 * twice counts once.
 */
export function egressOf({
  series,
  pods,
  window,
  scope = [],
  by,
}: {
  /** Matchers of the traffic series. */
  readonly series: string;
  /** Matchers of their pods. */
  readonly pods: string;
  /** The range, `60s`. */
  readonly window: string;
  /** Labels besides namespace and pod that separate tenant clusters. */
  readonly scope?: readonly string[];
  /** Labels of the sums; by default there is one sum of all. */
  readonly by?: readonly string[];
}): string {
  const sent = `increase(container_network_transmit_bytes_total{${series},${pods}}[${window}])`;
  const hostNetwork = `last_over_time(kube_pod_info{${series},host_network="true"}[${POLL_BACK}])`;
  const pod = [...scope, 'namespace', 'pod'];
  const once = `max by (${[...pod, 'interface', 'id'].join(', ')}) (${sent})`;
  const sum = by === undefined ? 'sum' : `sum by (${by.join(', ')}) `;
  return `${sum}(${once} unless on (${pod.join(', ')}) ${hostNetwork})`;
}

/**
 * In MIG mode a GPU has no utilisation of its own: exporters leave it out, or report 0 for each
 * instance. The profiling field of each instance replaces it. Repeated series, on every instance or
 * pod, count as one series for each GPU or instance.
 */
function utilizationOf(
  selections: readonly string[],
): Pick<BuiltInQueries, 'utilization' | 'devices'> {
  const { ofGpus, ofInstances } = utilizationSeries(selections, WINDOW);
  const percent = `(${ofGpus}) or on (UUID, GPU_I_ID) 100 * (${ofInstances})`;
  return {
    utilization: `avg by (modelName) (max by (UUID, GPU_I_ID, modelName) (${percent}))`,
    devices: `count by (modelName) (group by (UUID, GPU_I_ID, modelName) (${percent}))`,
  };
}

/**
 * The averages that utilisation is computed from, of all series that match any selection; `window`
 * as `60s`.
 */
export function utilizationSeries(
  selections: readonly string[],
  window: string,
): {
  /** Percent of complete GPUs. */
  readonly ofGpus: string;
  /** Fractions of one, of complete GPUs and of instances. */
  readonly ofInstances: string;
} {
  const each = (metric: string, more = ''): string =>
    selections
      .map((series) => `avg_over_time(${metric}{${series}${more}}[${window}])`)
      .join(' or ');
  return {
    ofGpus: each('DCGM_FI_DEV_GPU_UTIL', ',GPU_I_ID=""'),
    ofInstances: each('DCGM_FI_PROF_GR_ENGINE_ACTIVE'),
  };
}
