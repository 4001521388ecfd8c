/** A Kubernetes object as it is written; the API server is the judge of its shape. */
export interface KubeObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: ObjectMeta;
  readonly spec?: Record<string, unknown>;
  readonly status?: Record<string, unknown>;
  readonly [field: string]: unknown;
}

export interface ObjectMeta {
  readonly name: string;
  readonly namespace?: string;
  readonly uid?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly ownerReferences?: readonly Readonly<Record<string, string | boolean>>[];
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
  readonly deletionGracePeriodSeconds?: number;
}

/** What an API server answers with is an object, or it is the body of a failure. */
export function isKubeObject(body: Readonly<Record<string, unknown>>): body is KubeObject {
  const { apiVersion, kind, metadata } = body;
  if (typeof apiVersion !== 'string' || typeof kind !== 'string') return false;
  if (typeof metadata !== 'object' || metadata === null) return false;
  return 'name' in metadata && typeof metadata.name === 'string';
}

const PLURALS: Readonly<Record<string, string>> = {
  Namespace: 'namespaces',
  Node: 'nodes',
  Pod: 'pods',
  PersistentVolume: 'persistentvolumes',
  StorageClass: 'storageclasses',
  PersistentVolumeClaim: 'persistentvolumeclaims',
  Service: 'services',
  Secret: 'secrets',
  ServiceAccount: 'serviceaccounts',
  ClusterRole: 'clusterroles',
  ClusterRoleBinding: 'clusterrolebindings',
  StatefulSet: 'statefulsets',
  Deployment: 'deployments',
  PodMetrics: 'pods',
  NodeMetrics: 'nodes',
  ResourceClaim: 'resourceclaims',
  ResourceSlice: 'resourceslices',
  VirtualClusterInstance: 'virtualclusterinstances',
};

/** The path of the collection that an object belongs to. */
export function collectionPath(object: KubeObject): string {
  const { apiVersion, kind, metadata } = object;
  const plural = PLURALS[kind];
  if (plural === undefined) throw new Error(`simulator: no path for kind: "${kind}"`);
  const group = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  const scope = metadata.namespace === undefined ? '' : `/namespaces/${metadata.namespace}`;
  return `${group}${scope}/${plural}`;
}

export function objectPath(object: KubeObject): string {
  return `${collectionPath(object)}/${object.metadata.name}`;
}

/** RFC 3339 in UTC to the second, rounded down, as every time in the Kubernetes API. */
export function apiTime(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}
