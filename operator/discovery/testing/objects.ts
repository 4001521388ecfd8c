import type { RawObject } from '../../kubernetes/source.ts';

type Texts = Readonly<Record<string, string>>;

export interface ObjectOptions {
  readonly labels?: Texts;
  readonly annotations?: Texts;
  /** RFC 3339. */
  readonly created?: string;
}

export interface InstanceOptions extends ObjectOptions {
  readonly displayName?: string;
  readonly cluster?: string;
  readonly hostNamespace?: string;
  readonly hostName?: string;
  readonly phase?: string;
  readonly ignored?: boolean;
  readonly deleted?: string;
  /** What the platform rendered for the chart, YAML. */
  readonly values?: string;
}

const CREATED = '2026-01-01T00:00:00Z';

export interface WorkloadOptions extends ObjectOptions {
  readonly kind?: 'StatefulSet' | 'Deployment';
}

/** A StatefulSet or Deployment as the chart of a tenant cluster makes it. */
export function workload(
  namespace: string,
  release: string,
  options: WorkloadOptions = {},
): RawObject {
  const { kind = 'StatefulSet' } = options;
  const labels = { app: 'vcluster', release, ...options.labels };
  const own = metadata(namespace, release, { ...options, labels });
  return { kind, metadata: own, spec: { replicas: 1 } };
}

export function namespaceObject(name: string, options: ObjectOptions = {}): RawObject {
  return { metadata: metadata('', name, options) };
}

/** A platform instance that points to a workload of its own name. */
export function instance(
  namespace: string,
  name: string,
  options: InstanceOptions = {},
): RawObject {
  const { hostNamespace, hostName, cluster, displayName, phase, ignored, deleted, values } =
    options;
  return {
    metadata: { ...metadata(namespace, name, options), deletionTimestamp: deleted },
    spec: {
      displayName,
      clusterRef: { cluster, namespace: hostNamespace, virtualCluster: hostName },
    },
    status: {
      phase,
      ignoreReconciliation: ignored,
      ...(values === undefined ? {} : { virtualCluster: { helmRelease: { values } } }),
    },
  };
}

function metadata(namespace: string, name: string, options: ObjectOptions): RawObject {
  return {
    uid: `${namespace}/${name}/${options.created ?? ''}`,
    ...(namespace === '' ? {} : { namespace }),
    name,
    creationTimestamp: options.created ?? CREATED,
    labels: options.labels ?? {},
    annotations: options.annotations ?? {},
  };
}
