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
 * Takes out of a Service of type LoadBalancer what bears on billing; it is one load balancer,
 * however many ports and addresses it has (design 7). Services of other types, of which there are
 * many more, are not kept; one that changes its type comes or goes.
 */
export function projectLoadBalancer(object: RawObject): LoadBalancerView | undefined {
  const metadata = recordAt(object, 'metadata');
  const uid = textAt(metadata, 'uid');
  const name = textAt(metadata, 'name');
  if (uid === undefined || name === undefined) return undefined;
  if (recordAt(object, 'spec')['type'] !== 'LoadBalancer') return undefined;
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
    provisioned: hasAddress,
  };
}
