import type { Projected, RawObject } from '../kubernetes/source.ts';
import { type CapacityType, capacityTypeOf } from './capacity-type.ts';
import { createIntern } from './intern.ts';
import { recordAt, textAt, timeAt } from './raw-fields.ts';

/** What of a node bears on billing. Its labels are kept, since settings name some of them. */
export interface NodeView extends Projected {
  readonly labels: RawObject;
  readonly createdAt: number;
}

/** The dimensions that a node lends to what runs on it. */
export interface NodeState {
  readonly capacityType: CapacityType;
  /** From the node's own labels only; ZONE and REGION are filled in when metering. */
  readonly zone?: string;
  readonly region?: string;
}

const ZONE_LABELS = ['topology.kubernetes.io/zone', 'failure-domain.beta.kubernetes.io/zone'];
const REGION_LABELS = ['topology.kubernetes.io/region', 'failure-domain.beta.kubernetes.io/region'];

const intern = createIntern<NodeState>();

/** Takes out of a Node what bears on billing. */
export function projectNode(object: RawObject): NodeView | undefined {
  const metadata = recordAt(object, 'metadata');
  const uid = textAt(metadata, 'uid');
  const name = textAt(metadata, 'name');
  if (uid === undefined || name === undefined) return undefined;
  return {
    uid,
    name,
    namespace: '',
    labels: recordAt(metadata, 'labels'),
    createdAt: timeAt(metadata, 'creationTimestamp') ?? 0,
  };
}

/** What a node's labels say under the settings in force; equal states are one shared value. */
export function nodeState(labels: RawObject, capacityTypeLabel: string): NodeState {
  return shareNodeState({
    capacityType: capacityTypeOf(labels, capacityTypeLabel),
    zone: firstOf(labels, ZONE_LABELS),
    region: firstOf(labels, REGION_LABELS),
  });
}

/** The one shared value with these fields. */
export function shareNodeState(state: {
  readonly capacityType: CapacityType;
  readonly zone: string | undefined;
  readonly region: string | undefined;
}): NodeState {
  const { capacityType, zone, region } = state;
  return intern(`${capacityType}\0${zone ?? ''}\0${region ?? ''}`, () => ({
    capacityType,
    ...(zone === undefined ? {} : { zone }),
    ...(region === undefined ? {} : { region }),
  }));
}

/** True when both lend the same dimensions. */
export function sameNodeState(a: NodeState, b: NodeState): boolean {
  return a.capacityType === b.capacityType && a.zone === b.zone && a.region === b.region;
}

function firstOf(labels: RawObject, names: readonly string[]): string | undefined {
  for (const name of names) {
    const value = textAt(labels, name);
    if (value !== undefined) return value;
  }
  return undefined;
}
