import type { Projected, RawObject } from '../../kubernetes/source.ts';
import { type HamiDevice, hamiDevices } from './hami-node.ts';
import {
  amountAt,
  conditionOf,
  identityOf,
  listAt,
  recordAt,
  textAt,
  timeAt,
} from '../../kubernetes/raw-fields.ts';

/** The fields of a Node that bear on billing, and all its labels: settings name some of them. */
export interface NodeView extends Projected {
  readonly labels: Readonly<Record<string, string>>;
  readonly createdAt: number;
  /** Capacity in nanocores and nano-bytes; 0 while the node reports none. */
  readonly cpu: bigint;
  readonly memory: bigint;
  /** Extended resources in units, zeros included: a dead plugin leaves its name behind. */
  readonly extended: ReadonlyMap<string, ExtendedResource>;
  readonly taints: readonly NodeTaint[];
  /** Last transition of the condition Ready while it is not true. */
  readonly notReadySince?: number;
  /**
   * The machine's identifier (`systemUUID`), where the kubelet reports one. Two nodes of one name
   * can be two machines.
   */
  readonly machine?: string;
  /** The provider's name of the machine, `aws:///us-east-1a/i-0123`. */
  readonly providerId?: string;
  /** The GPUs that HAMi's device plugin registers; absent where HAMi does not serve the node. */
  readonly hami?: readonly HamiDevice[];
  /**
   * The tenant's API hides it while the record of its machine exists
   * (docs/explanation/nodes.md#whom-to-trust-about-nodes).
   */
  readonly hidden?: true;
}

export interface ExtendedResource {
  readonly capacity: number;
  readonly allocatable: number;
}

export interface NodeTaint {
  readonly key: string;
  /** Milliseconds since the epoch; the API sets it for some effects only. */
  readonly timeAdded?: number;
}

/** Reads the fields of a Node that bear on billing; undefined for a malformed object. */
export function projectNode(object: RawObject): NodeView | undefined {
  const identity = identityOf(object);
  if (identity === undefined) return undefined;
  const metadata = recordAt(object, 'metadata');
  const status = recordAt(object, 'status');
  const capacity = recordAt(status, 'capacity');
  const notReadySince = notReady(status);
  const hami = hamiDevices(metadata);
  const machine = textAt(recordAt(status, 'nodeInfo'), 'systemUUID');
  const providerId = textAt(recordAt(object, 'spec'), 'providerID');
  return {
    ...identity,
    namespace: '',
    labels: labelsOf(recordAt(metadata, 'labels')),
    createdAt: timeAt(metadata, 'creationTimestamp') ?? 0,
    cpu: amountAt(capacity, 'cpu') ?? 0n,
    memory: amountAt(capacity, 'memory') ?? 0n,
    extended: extendedOf(
      capacity,
      'allocatable' in status ? recordAt(status, 'allocatable') : capacity,
    ),
    taints: listAt(recordAt(object, 'spec'), 'taints').flatMap(taintOf),
    notReadySince,
    ...(machine === undefined || machine === '' ? {} : { machine }),
    ...(providerId === undefined || providerId === '' ? {} : { providerId }),
    hami,
  };
}

/**
 * Returns the labels that are texts. Other values could be nested to any depth, and views are
 * compared and written. Names with a leading `$` are left out, because the journal marks its values
 * so.
 */
export function labelsOf(labels: RawObject): Readonly<Record<string, string>> {
  const texts: Record<string, string> = {};
  for (const [name, value] of Object.entries(labels)) {
    if (typeof value === 'string' && !name.startsWith('$')) texts[name] = value;
  }
  return texts;
}

function notReady(status: RawObject): number | undefined {
  const ready = conditionOf(status, 'Ready');
  if (ready === undefined || ready['status'] === 'True') return undefined;
  return timeAt(ready, 'lastTransitionTime');
}

function taintOf(taint: RawObject): readonly NodeTaint[] {
  const key = textAt(taint, 'key');
  if (key === undefined) return [];
  const timeAdded = timeAt(taint, 'timeAdded');
  return [{ key, timeAdded }];
}

export function extendedOf(
  capacity: RawObject,
  allocatable: RawObject,
): ReadonlyMap<string, ExtendedResource> {
  const names = [...new Set([...Object.keys(capacity), ...Object.keys(allocatable)])];
  const qualified = names.filter((name) => name.includes('/')).toSorted();
  return new Map(
    qualified.map((name) => [
      name,
      { capacity: unitsAt(capacity, name), allocatable: unitsAt(allocatable, name) },
    ]),
  );
}

const NANOS_PER_UNIT = 1_000_000_000n;

function unitsAt(amounts: RawObject, name: string): number {
  return Number((amountAt(amounts, name) ?? 0n) / NANOS_PER_UNIT);
}
