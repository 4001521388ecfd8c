import type { PrometheusSettings } from '../settings/settings.ts';

/** The queries that hold where no setting replaces them, as templates (docs/explanation/prometheus.md#measured-by-prometheus). */
interface BuiltInQueries {
  /** Bytes that left the tenant cluster's pods. */
  readonly egress: string;
  /** Average percent by model. */
  readonly utilization: string;
  /** How many GPUs and GPU instances that average covers, by model. */
  readonly devices: string;
}

/** What the built-in queries need to know of a tenant cluster. */
export interface BuiltInSubject {
  /** Its control plane's traffic is charged (METER_CONTROL_PLANE). */
  readonly meterControlPlane: boolean;
  /** It has a namespace on the host cluster. */
  readonly onHost: boolean;
  /** No other tenant cluster has its name, so that an external label may name it. */
  readonly uniqueName: boolean;
}

const BY_NAMESPACE = 'namespace="{{namespace}}",exported_namespace=""';
/** Where Prometheus does not honour an exporter's labels, `namespace` is the exporter's own. */
const BY_EXPORTED_NAMESPACE = 'exported_namespace="{{namespace}}"';
/** What telemetry inside of a tenant cluster with nodes of its own carries. */
const BY_EXTERNAL_LABEL = 'vcluster="{{vcluster}}"';
/** Instance names are unique within their project only. The platform's query proxy takes `=` alone on these. */
const BY_PLATFORM_INSTANCE =
  'vcluster_platform_instance="{{instance}}",vcluster_platform_project="{{project}}"';

/** What follows the tenant cluster's name in the names of its control plane's pods. */
export const CONTROL_PLANE_ENDING = '(-etcd|-api|-controller)?-([0-9]+|[a-z0-9]+-[a-z0-9]{5})';
/**
 * Names of a tenant cluster's control plane pods: those of a StatefulSet or Deployment called after it. A
 * pod that is synced from inside ends in `-x-<namespace>-x-<name>` or ten digits of a hash.
 */
const CONTROL_PLANE_PODS = `{{vcluster}}${CONTROL_PLANE_ENDING}`;

const WINDOW = '{{window}}';

/** Long enough to know of a host-network pod that is gone, in every window there can be. */
const POLL_BACK = '1h';

/**
 * The built-in queries of a preset. Egress is charged, so by default only what the host cluster's own
 * telemetry says counts: a label such as `exported_namespace` may come from a tenant's pod.
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
 * A pod on the host's network reports the node's whole traffic, so such pods are left out, as
 * kube-state-metrics tells them. A series that is scraped twice counts once.
 */
export function egressOf({
  series,
  pods,
  window,
  scope = [],
  by,
}: {
  /** Matchers of the series that are asked about. */
  readonly series: string;
  /** Matchers of their pods. */
  readonly pods: string;
  /** The range, `60s`. */
  readonly window: string;
  /** Labels that tell apart what is asked about beside namespace and pod. */
  readonly scope?: readonly string[];
  /** Labels of the sums; one sum of all by default. */
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
 * In MIG mode a GPU has no utilisation of its own (exporters leave it out, or report 0 for each
 * instance), so the profiling field of each instance stands in. What repeats, on every instance or
 * pod, is reduced to one series for each GPU or instance.
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

/** The averages that utilisation is made of, of all series that any of the selections has; `window` as `60s`. */
export function utilizationSeries(
  selections: readonly string[],
  window: string,
): {
  /** Percent of whole GPUs. */
  readonly ofGpus: string;
  /** Parts of one, of whole GPUs and of instances. */
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
