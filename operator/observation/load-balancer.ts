import type { Projected, RawObject } from '../kubernetes/source.ts';
import { type ObjectLabels, objectLabels } from './object-labels.ts';
import { listAt, recordAt, textAt, timeAt } from './raw-fields.ts';

/** What of a Service of type LoadBalancer bears on billing. */
export interface LoadBalancerView extends Projected {
  readonly labels: ObjectLabels;
  readonly createdAt: number;
  /** It has an ingress address: the load balancer exists. */
  readonly provisioned: boolean;
}

/**
 * Takes out of a Service what bears on billing; one load balancer per Service, however many ports
 * and addresses it has (design 7). A Service of another type costs nothing and is projected all the
 * same, so that a change of its type ends or begins the charge.
 */
export function projectLoadBalancer(object: RawObject): LoadBalancerView | undefined {
  const metadata = recordAt(object, 'metadata');
  const uid = textAt(metadata, 'uid');
  const name = textAt(metadata, 'name');
  if (uid === undefined || name === undefined) return undefined;
  const ingress = listAt(recordAt(recordAt(object, 'status'), 'loadBalancer'), 'ingress');
  const hasAddress = ingress.some(
    (entry) => textAt(entry, 'ip') !== undefined || textAt(entry, 'hostname') !== undefined,
  );
  return {
    uid,
    name,
    namespace: textAt(metadata, 'namespace') ?? '',
    labels: objectLabels(metadata),
    createdAt: timeAt(metadata, 'creationTimestamp') ?? 0,
    provisioned: recordAt(object, 'spec')['type'] === 'LoadBalancer' && hasAddress,
  };
}
