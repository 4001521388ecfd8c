import { createHash } from 'node:crypto';

/** How large a simulated control plane cluster is. */
export interface Size {
  readonly tenants: number;
  readonly pods: number;
  readonly nodes: number;
  /** Pods beside them that no tenant cluster has anything to do with, in namespaces of their own; none by default. */
  readonly foreign?: number;
}

const FOREIGN_PER_NAMESPACE = 50;

/** In how many namespaces foreign pods are. */
export function foreignNamespaces({ foreign = 0 }: Size): number {
  return Math.ceil(foreign / FOREIGN_PER_NAMESPACE);
}

/** A pod that exists: which one its slot holds by now, how far it has got, and since when. */
export interface PodSlot {
  readonly slot: number;
  /** Counts the pods that the slot has held. */
  readonly incarnation: number;
  readonly stage: 'pending' | 'bound' | 'running' | 'succeeded';
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  /** Counts label changes. */
  readonly revision: number;
}

/** Requests of a few shapes, as fleets have them. */
const SHAPES = [
  { cpu: '100m', memory: '128Mi' },
  { cpu: '250m', memory: '512Mi' },
  { cpu: '500m', memory: '1Gi' },
  { cpu: '1', memory: '2Gi' },
  { cpu: '1500m', memory: '3500Mi' },
  { cpu: '4', memory: '16Gi' },
];

/**
 * The objects of a cluster as JSON text of the size and shape that an API server sends, managed
 * fields included. Every text is made when it is asked for, so that no object is held.
 */
export function createPopulation(size: Size, bornAt: number) {
  const born = apiTime(bornAt);
  const tenantOf = (slot: number): number => slot % size.tenants;

  const nameOf = ({ slot, incarnation }: PodSlot): string =>
    slot < size.tenants
      ? `cluster-${slot}-0`
      : `web-${hex(`rs${slot}`, 10)}-${hex(`${slot}/${incarnation}`, 5)}-x-shop-x-cluster-${tenantOf(slot)}`;

  const pod = (one: PodSlot, resourceVersion: number): string => {
    const { slot, incarnation, stage, createdAt, revision } = one;
    const tenant = tenantOf(slot);
    const control = slot < size.tenants;
    const name = nameOf(one);
    const shape = SHAPES[slot % SHAPES.length] ?? { cpu: '1', memory: '1Gi' };
    const created = apiTime(createdAt);
    const started = apiTime(createdAt + 2000);
    const labels = control
      ? `"app":"vcluster","release":"cluster-${tenant}","statefulset.kubernetes.io/pod-name":"${name}","controller-revision-hash":"cluster-${tenant}-${hex(String(tenant), 10)}"`
      : `"app":"web","pod-template-hash":"${hex(`rs${slot}`, 10)}","release":"shop-${revision}","vcluster.loft.sh/managed-by":"cluster-${tenant}","vcluster.loft.sh/namespace":"shop","vcluster.loft.sh/ns-label-x-cluster-${tenant}-x-${hex(`ns${tenant}`, 10)}":"shop"`;
    const owner = control
      ? `{"apiVersion":"apps/v1","kind":"StatefulSet","name":"cluster-${tenant}","uid":"${uid(`set${tenant}`)}","controller":true}`
      : `{"apiVersion":"v1","kind":"Service","name":"cluster-${tenant}","uid":"${uid(`service${tenant}`)}"}`;
    const annotations = control
      ? ''
      : `"vcluster.loft.sh/labels":"app=\\"web\\"\\npod-template-hash=\\"${hex(`rs${slot}`, 10)}\\"","vcluster.loft.sh/name":"web-${hex(`${slot}/${incarnation}`, 10)}","vcluster.loft.sh/namespace":"shop","vcluster.loft.sh/object-host-name":"${name}","vcluster.loft.sh/object-host-namespace":"vcluster-${tenant}","vcluster.loft.sh/object-kind":"/v1, Kind=Pod","vcluster.loft.sh/object-name":"web-${hex(`${slot}/${incarnation}`, 10)}","vcluster.loft.sh/object-uid":"${uid(`virtual${slot}/${incarnation}`)}","vcluster.loft.sh/owner-set-kind":"ReplicaSet","vcluster.loft.sh/service-account-name":"default","vcluster.loft.sh/uid":"${uid(`virtual${slot}/${incarnation}`)}"`;
    const node =
      stage === 'pending' ? '' : `"nodeName":"node-${(slot * 7919 + incarnation) % size.nodes}",`;
    return `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"${name}","namespace":"vcluster-${tenant}","uid":"${uid(`pod${slot}/${incarnation}`)}","resourceVersion":"${resourceVersion}","generation":1,"creationTimestamp":"${created}","labels":{${labels}},"annotations":{${annotations}},"ownerReferences":[${owner}],"managedFields":[${managed('vcluster', created, POD_SPEC_FIELDS)},${managed('kubelet', started, POD_STATUS_FIELDS)}]},"spec":{"volumes":[{"name":"kube-api-access-${hex(name, 5)}","projected":{"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}}],"defaultMode":420}}],"containers":[{"name":"web","image":"registry.example.com/shop/web:v1.${slot % 40}.0","ports":[{"name":"http","containerPort":8080,"protocol":"TCP"}],"env":[{"name":"KUBERNETES_SERVICE_HOST","value":"10.96.${tenant % 250}.1"},{"name":"KUBERNETES_SERVICE_PORT","value":"443"},{"name":"LOG_LEVEL","value":"info"}],"resources":{"limits":{"memory":"${shape.memory}"},"requests":{"cpu":"${shape.cpu}","memory":"${shape.memory}"}},"volumeMounts":[{"name":"kube-api-access-${hex(name, 5)}","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],"livenessProbe":{"httpGet":{"path":"/healthz","port":"http","scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"None","serviceAccountName":"vc-workload-cluster-${tenant}","automountServiceAccountToken":false,${node}"securityContext":{},"schedulerName":"default-scheduler","tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],"priority":0,"enableServiceLinks":false,"preemptionPolicy":"PreemptLowerPriority"},"status":${podStatus(one, created, started)}}`;
  };

  const node = (index: number, resourceVersion: number): string => {
    const name = `node-${index}`;
    const zone = `eu-central-1${'abc'.charAt(index % 3)}`;
    return `{"kind":"Node","apiVersion":"v1","metadata":{"name":"${name}","uid":"${uid(name)}","resourceVersion":"${resourceVersion}","creationTimestamp":"${born}","labels":{"beta.kubernetes.io/arch":"amd64","beta.kubernetes.io/os":"linux","kubernetes.io/arch":"amd64","kubernetes.io/os":"linux","kubernetes.io/hostname":"${name}","node.kubernetes.io/instance-type":"m7i.8xlarge","topology.kubernetes.io/region":"eu-central-1","topology.kubernetes.io/zone":"${zone}","karpenter.sh/capacity-type":"${index % 4 === 0 ? 'spot' : 'on-demand'}"},"annotations":{"node.alpha.kubernetes.io/ttl":"0"},"managedFields":[${managed('kubelet', born, NODE_FIELDS)}]},"spec":{"providerID":"aws:///${zone}/i-${hex(name, 16)}"},"status":{"capacity":{"cpu":"32","memory":"131072Mi","pods":"110","ephemeral-storage":"209702892Ki"},"allocatable":{"cpu":"31850m","memory":"127000Mi","pods":"110","ephemeral-storage":"193262185Ki"},"conditions":[${['MemoryPressure', 'DiskPressure', 'PIDPressure', 'Ready'].map((type) => `{"type":"${type}","status":"${type === 'Ready' ? 'True' : 'False'}","lastHeartbeatTime":"${born}","lastTransitionTime":"${born}","reason":"Kubelet","message":"kubelet is posting ready status"}`).join(',')}],"addresses":[{"type":"InternalIP","address":"10.1.${index >> 8}.${index & 255}"},{"type":"Hostname","address":"${name}"}],"nodeInfo":{"machineID":"${hex(name, 32)}","systemUUID":"${uid(`system${name}`)}","bootID":"${uid(`boot${name}`)}","kernelVersion":"6.12.0","osImage":"Linux","containerRuntimeVersion":"containerd://2.1.0","kubeletVersion":"v1.36.3","kubeProxyVersion":"","operatingSystem":"linux","architecture":"amd64"},"images":[${Array.from({ length: 30 }, (_, image) => `{"names":["registry.example.com/shop/web@sha256:${hex(`image${image}`, 64)}","registry.example.com/shop/web:v1.${image}.0"],"sizeBytes":${41_000_000 + image}}`).join(',')}]}}`;
  };

  const foreignPod = (index: number, resourceVersion: number): string => {
    const { name, namespace: home } = foreignPlace(index);
    const one = {
      slot: index,
      incarnation: 0,
      stage: 'running',
      createdAt: bornAt,
      revision: 0,
    } as const;
    const shape = SHAPES[index % SHAPES.length] ?? { cpu: '1', memory: '1Gi' };
    const started = apiTime(bornAt + 2000);
    return `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"${name}","namespace":"${home}","uid":"${uid(name)}","resourceVersion":"${resourceVersion}","creationTimestamp":"${born}","labels":{"app":"app-${index % 300}","pod-template-hash":"${hex(home, 10)}"},"managedFields":[${managed('kube-controller-manager', born, POD_SPEC_FIELDS)},${managed('kubelet', started, POD_STATUS_FIELDS)}]},"spec":{"containers":[{"name":"app","image":"registry.example.com/app:v1","resources":{"requests":{"cpu":"${shape.cpu}","memory":"${shape.memory}"}}}],"nodeName":"node-${(index * 7919) % size.nodes}","restartPolicy":"Always"},"status":${podStatus(one, born, started)}}`;
  };

  const foreignNamespace = (index: number, resourceVersion: number): string =>
    `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"apps-${index}","uid":"${uid(`apps${index}`)}","resourceVersion":"${resourceVersion}","creationTimestamp":"${born}","labels":{"kubernetes.io/metadata.name":"apps-${index}"}},"status":{"phase":"Active"}}`;

  const foreignMetrics = (index: number, at: number): string => {
    const { name, namespace: home } = foreignPlace(index);
    return `{"metadata":{"name":"${name}","namespace":"${home}","creationTimestamp":"${apiTime(at)}"},"timestamp":"${apiTime(at)}","window":"15.1s","containers":[{"name":"app","usage":{"cpu":"25000000n","memory":"100000Ki"}}]}`;
  };

  const namespace = (tenant: number, resourceVersion: number): string =>
    `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"vcluster-${tenant}","uid":"${uid(`namespace${tenant}`)}","resourceVersion":"${resourceVersion}","creationTimestamp":"${born}","labels":{"kubernetes.io/metadata.name":"vcluster-${tenant}","meterfeed.io/project":"project-${tenant % 50}"}},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}}`;

  const statefulSet = (tenant: number, resourceVersion: number): string =>
    `{"kind":"StatefulSet","apiVersion":"apps/v1","metadata":{"name":"cluster-${tenant}","namespace":"vcluster-${tenant}","uid":"${uid(`set${tenant}`)}","resourceVersion":"${resourceVersion}","generation":1,"creationTimestamp":"${born}","labels":{"app":"vcluster","release":"cluster-${tenant}","chart":"vcluster-0.30.0","heritage":"Helm"},"managedFields":[${managed('helm', born, POD_SPEC_FIELDS)}]},"spec":{"replicas":1,"selector":{"matchLabels":{"app":"vcluster","release":"cluster-${tenant}"}},"serviceName":"cluster-${tenant}-headless","template":{"metadata":{"labels":{"app":"vcluster","release":"cluster-${tenant}"}},"spec":{"containers":[{"name":"syncer","image":"ghcr.io/loft-sh/vcluster-oss:0.30.0"}]}}},"status":{"observedGeneration":1,"replicas":1,"readyReplicas":1,"availableReplicas":1,"currentReplicas":1,"updatedReplicas":1}}`;

  const claim = (index: number, resourceVersion: number): string => {
    const tenant = index % size.tenants;
    const name = `data-${index}-x-shop-x-cluster-${tenant}`;
    return `{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{"name":"${name}","namespace":"vcluster-${tenant}","uid":"${uid(name)}","resourceVersion":"${resourceVersion}","creationTimestamp":"${born}","labels":{"app":"web","vcluster.loft.sh/managed-by":"cluster-${tenant}","vcluster.loft.sh/namespace":"shop"},"managedFields":[${managed('vcluster', born, POD_STATUS_FIELDS)}]},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"10Gi"}},"volumeName":"pvc-${uid(`volume${index}`)}","storageClassName":"${index % 3 === 0 ? 'fast' : 'standard'}","volumeMode":"Filesystem"},"status":{"phase":"Bound","accessModes":["ReadWriteOnce"],"capacity":{"storage":"10Gi"}}}`;
  };

  /** Every fifth is a load balancer. */
  const service = (index: number, resourceVersion: number): string => {
    const tenant = index % size.tenants;
    const name = `service-${index}-x-shop-x-cluster-${tenant}`;
    const balanced = Math.floor(index / size.tenants) === 0;
    return `{"kind":"Service","apiVersion":"v1","metadata":{"name":"${name}","namespace":"vcluster-${tenant}","uid":"${uid(name)}","resourceVersion":"${resourceVersion}","creationTimestamp":"${born}","labels":{"vcluster.loft.sh/managed-by":"cluster-${tenant}","vcluster.loft.sh/namespace":"shop"}},"spec":{"ports":[{"protocol":"TCP","port":80,"targetPort":8080}],"clusterIP":"10.96.${index >> 8}.${index & 255}","type":"${balanced ? 'LoadBalancer' : 'ClusterIP'}"},"status":{"loadBalancer":${balanced ? `{"ingress":[{"ip":"192.0.2.${index % 250}"}]}` : '{}'}}}`;
  };

  const podMetrics = (one: PodSlot, at: number): string => {
    // A prime, so that the pods of a tenant, whose slots are as far apart as there are tenants, are not all at their least at once.
    const phase = (one.slot * 31 + Math.floor(at / 15_000) * 17) % 997;
    const load = 20_000_000 + phase * 400_000;
    return `{"metadata":{"name":"${nameOf(one)}","namespace":"vcluster-${tenantOf(one.slot)}","creationTimestamp":"${apiTime(at)}","labels":{"app":"web","vcluster.loft.sh/managed-by":"cluster-${tenantOf(one.slot)}"}},"timestamp":"${apiTime(at)}","window":"15.1s","containers":[{"name":"web","usage":{"cpu":"${load}n","memory":"${100_000 + (one.slot % 900) * 100}Ki"}}]}`;
  };

  const foreign = { pod: foreignPod, namespace: foreignNamespace, podMetrics: foreignMetrics };
  return { pod, node, namespace, statefulSet, claim, service, podMetrics, foreign };
}

function foreignPlace(index: number): { readonly name: string; readonly namespace: string } {
  const namespace = `apps-${Math.floor(index / FOREIGN_PER_NAMESPACE)}`;
  return { name: `app-${hex(namespace, 10)}-${hex(`foreign${index}`, 5)}`, namespace };
}

export type Population = ReturnType<typeof createPopulation>;

function podStatus({ stage }: PodSlot, created: string, started: string): string {
  const condition = (type: string, status: string, time: string): string =>
    `{"type":"${type}","observedGeneration":1,"status":"${status}","lastProbeTime":null,"lastTransitionTime":"${time}"}`;
  if (stage === 'pending') return '{"phase":"Pending","qosClass":"Burstable"}';
  if (stage === 'bound') {
    return `{"phase":"Pending","conditions":[${condition('PodScheduled', 'True', created)}],"qosClass":"Burstable"}`;
  }
  const running = stage === 'running';
  const ready = running ? 'True' : 'False';
  const state = running
    ? `{"running":{"startedAt":"${started}"}}`
    : `{"terminated":{"exitCode":0,"reason":"Completed","startedAt":"${started}","finishedAt":"${apiTime(Date.now())}","containerID":"containerd://${hex(started, 64)}"}}`;
  return `{"observedGeneration":1,"phase":"${running ? 'Running' : 'Succeeded'}","conditions":[${condition('PodReadyToStartContainers', ready, started)},${condition('Initialized', 'True', created)},${condition('Ready', ready, started)},${condition('ContainersReady', ready, started)},${condition('PodScheduled', 'True', created)}],"hostIP":"10.1.0.1","hostIPs":[{"ip":"10.1.0.1"}],"podIP":"10.244.1.17","podIPs":[{"ip":"10.244.1.17"}],"startTime":"${created}","containerStatuses":[{"name":"web","state":${state},"lastState":{},"ready":${running},"restartCount":0,"image":"registry.example.com/shop/web:v1","imageID":"registry.example.com/shop/web@sha256:${hex('image', 64)}","containerID":"containerd://${hex(created, 64)}","started":${running},"allocatedResources":{"cpu":"100m","memory":"128Mi"},"resources":{"limits":{"memory":"128Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},"user":{"linux":{"uid":0,"gid":0,"supplementalGroups":[0]}}}],"qosClass":"Burstable"}`;
}

function managed(manager: string, time: string, fields: string): string {
  return `{"manager":"${manager}","operation":"Update","apiVersion":"v1","time":"${time}","fieldsType":"FieldsV1","fieldsV1":${fields}}`;
}

const POD_SPEC_FIELDS =
  '{"f:metadata":{"f:annotations":{".":{},"f:vcluster.loft.sh/name":{},"f:vcluster.loft.sh/namespace":{},"f:vcluster.loft.sh/uid":{}},"f:labels":{".":{},"f:app":{},"f:pod-template-hash":{}},"f:ownerReferences":{}},"f:spec":{"f:automountServiceAccountToken":{},"f:containers":{"k:{\\"name\\":\\"web\\"}":{".":{},"f:env":{".":{},"k:{\\"name\\":\\"LOG_LEVEL\\"}":{".":{},"f:name":{},"f:value":{}}},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:ports":{},"f:resources":{".":{},"f:limits":{".":{},"f:memory":{}},"f:requests":{".":{},"f:cpu":{},"f:memory":{}}},"f:volumeMounts":{}}},"f:dnsConfig":{},"f:dnsPolicy":{},"f:restartPolicy":{},"f:schedulerName":{},"f:securityContext":{},"f:volumes":{}}}';
const POD_STATUS_FIELDS =
  '{"f:status":{"f:conditions":{"k:{\\"type\\":\\"ContainersReady\\"}":{".":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}},"k:{\\"type\\":\\"Ready\\"}":{".":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}}},"f:containerStatuses":{},"f:hostIP":{},"f:phase":{},"f:podIP":{},"f:podIPs":{},"f:startTime":{}}}';
const NODE_FIELDS =
  '{"f:status":{"f:allocatable":{"f:memory":{}},"f:capacity":{"f:memory":{}},"f:conditions":{},"f:images":{}}}';

function uid(seed: string): string {
  const digits = hex(seed, 32);
  return `${digits.slice(0, 8)}-${digits.slice(8, 12)}-${digits.slice(12, 16)}-${digits.slice(16, 20)}-${digits.slice(20)}`;
}

function hex(seed: string, length: number): string {
  return createHash('sha256').update(seed).digest('hex').slice(0, length);
}

/** RFC 3339 in UTC to the second. */
export function apiTime(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}
