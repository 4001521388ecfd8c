import type { KubeObject } from '../simulator/objects.ts';
import type { Held, HostAgents } from './host-agents.ts';
import type { VirtualPods } from './virtual-pods.ts';

/** One thing that a tenant has to pay for; times in milliseconds since the epoch. */
export interface Due {
  readonly metric: string;
  /** Namespace on the host: there is one vCluster in each. */
  readonly namespace: string;
  readonly uid: string;
  readonly name: string;
  readonly from: number;
  /** Undefined while it goes on. */
  readonly to: number | undefined;
  /** Units of the metric for an hour of it. */
  readonly rate: number;
  /** How many of its ends have no time in the API, so that they count from their arrival. */
  readonly undated: 0 | 1 | 2;
}

export interface Truth {
  readonly dues: readonly Due[];
  /** Pods that the host has for a vCluster, and that its own API never showed. */
  readonly unknown: readonly string[];
}

const VIRTUAL_UID = 'vcluster.loft.sh/object-uid';

/**
 * What the tenants used: how much of it by what the virtual APIs were asked for, how long by what kubelet, provisioner
 * and load balancer did. Labels, which are what the operator goes by, play no part.
 */
export function truthOf(agents: HostAgents, virtual: ReadonlyMap<string, VirtualPods>): Truth {
  const dues: Due[] = [];
  const unknown: string[] = [];
  for (const { pod, from, to, vanished } of agents.pods) {
    const { name, namespace = '', uid = '', annotations } = pod.metadata;
    const virtualUid = annotations?.[VIRTUAL_UID];
    if (virtualUid === undefined || from === undefined) continue;
    const spec = virtual.get(namespace)?.specs.get(virtualUid);
    if (spec === undefined) {
      unknown.push(`${namespace}/${name}`);
      continue;
    }
    const { cpu, memory, gpus } = requestsOf(spec);
    const undated = vanished ? 1 : 0;
    const shared = { namespace, uid, name, from, to, undated } as const;
    dues.push({ ...shared, metric: 'tenant_cpu_core_hours', rate: cpu });
    dues.push({ ...shared, metric: 'tenant_memory_gb_hours', rate: memory });
    if (gpus > 0) dues.push({ ...shared, metric: 'tenant_gpu_hours', rate: gpus });
  }
  for (const held of agents.claims) {
    // What a vCluster keeps its own data on is covered by its instance hours.
    if (held.object.metadata.annotations?.[VIRTUAL_UID] === undefined) continue;
    dues.push({ ...heldDue(held), metric: 'tenant_storage_gb_hours', rate: sizeOf(held.object) });
  }
  for (const held of agents.loadBalancers) {
    dues.push({ ...heldDue(held), metric: 'tenant_lb_hours', rate: 1 });
  }
  for (const held of agents.instances) {
    dues.push({ ...heldDue(held), metric: 'tenant_instance_hours', rate: 1 });
  }
  return { dues, unknown };
}

function heldDue({ object, from, to }: Held): Omit<Due, 'metric' | 'rate'> {
  const { name, namespace = '', uid = '' } = object.metadata;
  return { namespace, uid, name, from, to, undated: 2 };
}

interface Requests {
  readonly cpu: number;
  /** GiB. */
  readonly memory: number;
  readonly gpus: number;
}

interface Container {
  readonly resources?: { readonly requests?: Readonly<Record<string, string>> };
}

/** What the scheduler sets aside: all containers together, or the largest init container where that is more. */
function requestsOf(spec: Readonly<Record<string, unknown>>): Requests {
  const containers = (spec['containers'] ?? []) as readonly Container[];
  const inits = (spec['initContainers'] ?? []) as readonly Container[];
  const requested = (container: Container, resource: string): number =>
    amountOf(container.resources?.requests?.[resource] ?? '0');
  const effective = (resource: string): number => {
    const together = containers.reduce((sum, each) => sum + requested(each, resource), 0);
    return Math.max(together, ...inits.map((each) => requested(each, resource)));
  };
  return {
    cpu: effective('cpu'),
    memory: effective('memory') / 2 ** 30,
    gpus: effective('nvidia.com/gpu'),
  };
}

function sizeOf({ status }: KubeObject): number {
  const { storage } = (status?.['capacity'] ?? {}) as { readonly storage?: string };
  return amountOf(storage ?? '0') / 2 ** 30;
}

const UNITS: Readonly<Record<string, number>> = {
  '': 1,
  m: 0.001,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
};

/** The few forms of quantities that the scenario and its vClusters write. */
function amountOf(quantity: string): number {
  const [, digits, unit = ''] = /^([0-9.]+)([A-Za-z]*)$/.exec(quantity) ?? [];
  const factor = UNITS[unit];
  if (digits === undefined || factor === undefined) {
    throw new RangeError(`vcluster: quantity: "${quantity}": has a unit that is not known here`);
  }
  return Number(digits) * factor;
}
