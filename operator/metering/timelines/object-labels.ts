import type { OwnershipLabels } from '../../discovery/attribution.ts';
import { claimText, hasControlPlaneLabels } from '../../discovery/control-plane.ts';
import type { RawObject } from '../../kubernetes/source.ts';
import { listAt, recordAt, textAt } from '../../kubernetes/raw-fields.ts';
import { type Api, API_OF_HOST, createSharedValues } from './shared-values.ts';

/**
 * The labels that identify an object's owner (docs/explanation/discovery.md#whose-an-object-is). A
 * tenant cluster's syncer writes `managed-by` and `namespace` itself, and renames these and
 * `release` where a tenant sets them. It copies `app` verbatim, so a tenant can set that to
 * anything.
 */
export interface ObjectLabels extends OwnershipLabels {
  /** `vcluster.loft.sh/namespace`: namespace inside the tenant cluster. */
  readonly virtualNamespace?: string;
  /** The queue that admitted a pod. Anyone who may label the pod can name another one. */
  readonly queue?: string;
}

const MANAGED_BY = 'vcluster.loft.sh/managed-by';
const VIRTUAL_NAMESPACE = 'vcluster.loft.sh/namespace';

/**
 * The first label that a pod has names its queue: Kueue's cluster queue
 * (kueue.sigs.k8s.io/docs/reference/labels-and-annotations), then KAI's.
 */
const QUEUES = ['kueue.x-k8s.io/cluster-queue-name', 'kai.scheduler/queue'];

const sharedLabels = createSharedValues<ObjectLabels>();

/** Returns the labels of an object's metadata, shared between objects with equal ones. */
export function objectLabels(metadata: RawObject, api: Api = API_OF_HOST): ObjectLabels {
  return shareLabels(labelsOf(metadata), api);
}

/** Returns the labels of a pod's metadata, with its queue and the workload that runs it. */
export function podLabels(metadata: RawObject, api: Api = API_OF_HOST): ObjectLabels {
  const labels = recordAt(metadata, 'labels');
  const queue = QUEUES.map((key) => textAt(labels, key)).find(Boolean);
  const own = labelsOf(metadata);
  const runBy = hasControlPlaneLabels(own) ? (runnerOf(metadata) ?? '') : undefined;
  return shareLabels({ ...own, queue, runBy }, api);
}

/**
 * Returns the name of the workload that runs a pod. A Deployment names its ReplicaSets after itself
 * and the pod's label `pod-template-hash`.
 */
function runnerOf(metadata: RawObject): string | undefined {
  const owner = listAt(metadata, 'ownerReferences').find(({ controller }) => controller === true);
  if (owner === undefined || textAt(owner, 'apiVersion')?.startsWith('apps/') !== true)
    return undefined;
  const name = textAt(owner, 'name');
  if (owner['kind'] === 'StatefulSet' || owner['kind'] === 'DaemonSet') return name;
  if (owner['kind'] !== 'ReplicaSet' || name === undefined) return undefined;
  const ending = `-${textAt(recordAt(metadata, 'labels'), 'pod-template-hash') ?? ''}`;
  return ending !== '-' && name.endsWith(ending) ? name.slice(0, -ending.length) : undefined;
}

/** Marks labels of an object that may use GPUs: no part of a control plane does. */
export function withGpus(labels: ObjectLabels, api: Api = API_OF_HOST): ObjectLabels {
  return hasControlPlaneLabels(labels) ? shareLabels({ ...labels, holdsGpus: true }, api) : labels;
}

type Labels = { readonly [Key in keyof ObjectLabels]?: ObjectLabels[Key] | undefined };

function labelsOf(metadata: RawObject) {
  const labels = recordAt(metadata, 'labels');
  return {
    managedBy: textAt(labels, MANAGED_BY),
    virtualNamespace: textAt(labels, VIRTUAL_NAMESPACE),
    app: textAt(labels, 'app'),
    release: textAt(labels, 'release'),
    claim: claimText((key) => textAt(labels, key)),
    virtualMachine: isOfVirtualMachine(metadata) || undefined,
  };
}

const VIRTUAL_MACHINE_KINDS = ['VirtualMachineInstance', 'VirtualMachine', 'DataVolume'];
const VIRTUAL_MACHINE_APIS = ['kubevirt.io/', 'cdi.kubevirt.io/'];

/** KubeVirt's controllers own what they create; a tenant's syncer owns the objects it copies. */
function isOfVirtualMachine(metadata: RawObject): boolean {
  return listAt(metadata, 'ownerReferences').some((owner) => {
    const api = textAt(owner, 'apiVersion') ?? '';
    return (
      owner['controller'] === true &&
      VIRTUAL_MACHINE_KINDS.includes(textAt(owner, 'kind') ?? '') &&
      VIRTUAL_MACHINE_APIS.some((prefix) => api.startsWith(prefix))
    );
  });
}

/** Returns the shared value of an API with these labels. */
export function shareLabels(labels: Labels, api: Api = API_OF_HOST): ObjectLabels {
  const { managedBy, virtualNamespace, app, release, claim, queue, virtualMachine } = labels;
  const { runBy, holdsGpus } = labels;
  const machine = virtualMachine && 'vm';
  const names = [managedBy, virtualNamespace, app, release, claim, queue, machine, runBy];
  const key = holdsGpus ? [...names, 'gpus'] : names;
  return sharedLabels(api, key, () => ({
    managedBy,
    virtualNamespace,
    app,
    release,
    claim,
    queue,
    virtualMachine,
    runBy,
    holdsGpus,
  }));
}

/** True when both are equal, whether or not they are the same object. */
export function sameLabels(a: ObjectLabels, b: ObjectLabels): boolean {
  if (a === b) return true;
  return (
    a.managedBy === b.managedBy &&
    a.virtualNamespace === b.virtualNamespace &&
    a.app === b.app &&
    a.release === b.release &&
    a.claim === b.claim &&
    a.queue === b.queue &&
    a.virtualMachine === b.virtualMachine &&
    a.runBy === b.runBy &&
    a.holdsGpus === b.holdsGpus
  );
}

/**
 * True when both name the same tenant cluster; the namespace inside it may differ. A `claim` that
 * only one of them has is no difference: journals of older versions lack it.
 */
export function sameOwnerLabels(a: ObjectLabels, b: ObjectLabels): boolean {
  const isClaimSame = a.claim === undefined || b.claim === undefined || a.claim === b.claim;
  return a.managedBy === b.managedBy && a.app === b.app && a.release === b.release && isClaimSame;
}
