import type { Projected, RawObject } from '../kubernetes/source.ts';
import { amountAt } from './amount.ts';
import { type ObjectLabels, objectLabels } from './object-labels.ts';
import { listAt, recordAt, textAt, timeAt } from './raw-fields.ts';

/** One device that a claim was given: one entry of its allocation results. */
export interface AllocatedDevice {
  readonly driver: string;
  readonly pool: string;
  readonly device: string;
  /** Of a device that several claims may be given: which share of it this is. */
  readonly share?: string;
  /** What a share consumes of the device's capacities, nano-units by name; absent where it does not say. */
  readonly consumed?: ReadonlyMap<string, bigint>;
}

/** What the scheduler gave a claim. It does not change until it is taken back. */
export interface ClaimAllocation {
  /** In the order of the results; those for administrative access, which take nothing, are left out. */
  readonly devices: readonly AllocatedDevice[];
  /** The node that the devices are tied to, where the allocation names a single one. */
  readonly node?: string;
}

/** What of a ResourceClaim bears on billing. */
export interface ResourceClaimView extends Projected {
  readonly labels: ObjectLabels;
  readonly createdAt: number;
  /** Absent while the claim is not allocated. */
  readonly allocation?: ClaimAllocation;
  /** When it was allocated; absent where the API does not say. */
  readonly allocatedAt?: number;
  /** uids of the pods it is reserved for. */
  readonly pods: readonly string[];
  /** It is reserved for something that is no pod. */
  readonly otherConsumer: boolean;
}

/**
 * Takes out of a ResourceClaim what bears on billing (design 7, DRA). The versions v1, v1beta2 and
 * v1beta1 of `resource.k8s.io` agree on the fields that are read.
 */
export function projectResourceClaim(object: RawObject): ResourceClaimView | undefined {
  const metadata = recordAt(object, 'metadata');
  const uid = textAt(metadata, 'uid');
  const name = textAt(metadata, 'name');
  if (uid === undefined || name === undefined) return undefined;
  const status = recordAt(object, 'status');
  const consumers = listAt(status, 'reservedFor');
  return {
    uid,
    name,
    namespace: textAt(metadata, 'namespace') ?? '',
    labels: objectLabels(metadata),
    createdAt: timeAt(metadata, 'creationTimestamp') ?? 0,
    pods: consumers.filter(isPod).flatMap((consumer) => textAt(consumer, 'uid') ?? []),
    otherConsumer: consumers.some((consumer) => !isPod(consumer)),
    ...('allocation' in status ? allocated(recordAt(status, 'allocation')) : {}),
  };
}

function allocated(allocation: RawObject): Pick<ResourceClaimView, 'allocation' | 'allocatedAt'> {
  const results = listAt(recordAt(allocation, 'devices'), 'results');
  const node = onlyNode(recordAt(allocation, 'nodeSelector'));
  const allocatedAt = timeAt(allocation, 'allocationTimestamp');
  return {
    allocation: {
      devices: results.filter((result) => result['adminAccess'] !== true).flatMap(deviceOf),
      ...(node === undefined ? {} : { node }),
    },
    ...(allocatedAt === undefined ? {} : { allocatedAt }),
  };
}

function deviceOf(result: RawObject): readonly AllocatedDevice[] {
  const driver = textAt(result, 'driver');
  const pool = textAt(result, 'pool');
  const device = textAt(result, 'device');
  if (driver === undefined || pool === undefined || device === undefined) return [];
  const share = textAt(result, 'shareID');
  const consumed = amountsOf(recordAt(result, 'consumedCapacity'));
  return [
    {
      driver,
      pool,
      device,
      ...(share === undefined ? {} : { share }),
      ...(consumed.size === 0 ? {} : { consumed }),
    },
  ];
}

/** Quantities by name, in name order; malformed ones are left out. */
function amountsOf(quantities: RawObject): ReadonlyMap<string, bigint> {
  const amounts = new Map<string, bigint>();
  for (const name of Object.keys(quantities).toSorted()) {
    const amount = amountAt(quantities, name);
    if (amount !== undefined) amounts.set(name, amount);
  }
  return amounts;
}

/** The node's name, where the selector is a single term that matches a single name. */
function onlyNode(selector: RawObject): string | undefined {
  const [term, ...terms] = listAt(selector, 'nodeSelectorTerms');
  if (term === undefined || terms.length > 0) return undefined;
  const field = listAt(term, 'matchFields').find(({ key }) => key === 'metadata.name');
  if (field?.['operator'] !== 'In' || !Array.isArray(field['values'])) return undefined;
  const [name, ...names]: unknown[] = field['values'];
  return names.length === 0 && typeof name === 'string' ? name : undefined;
}

function isPod(consumer: RawObject): boolean {
  return consumer['resource'] === 'pods';
}
