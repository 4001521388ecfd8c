import type { Projected, RawObject } from '../kubernetes/source.ts';
import { type ObjectLabels, objectLabels } from './object-labels.ts';
import { conditionOf, countAt, recordAt, textAt, timeAt } from './raw-fields.ts';

/** What of a control plane StatefulSet or Deployment bears on instance hours. */
export interface WorkloadView extends Projected {
  readonly labels: ObjectLabels;
  readonly createdAt: number;
  /** At least one replica is ready and nobody has paused it. */
  readonly ready: boolean;
  /** When it became available, where the API says so (Deployments). */
  readonly readyAt?: number;
}

/** Takes out of a control plane workload what bears on instance hours (design 7). */
export function projectWorkload(object: RawObject): WorkloadView | undefined {
  const metadata = recordAt(object, 'metadata');
  const uid = textAt(metadata, 'uid');
  const name = textAt(metadata, 'name');
  if (uid === undefined || name === undefined) return undefined;
  const status = recordAt(object, 'status');
  const available = conditionOf(status, 'Available');
  const readyAt =
    available?.['status'] === 'True' ? timeAt(available, 'lastTransitionTime') : undefined;
  return {
    uid,
    name,
    namespace: textAt(metadata, 'namespace') ?? '',
    labels: objectLabels(metadata),
    createdAt: timeAt(metadata, 'creationTimestamp') ?? 0,
    ready: countAt(status, 'readyReplicas') > 0 && !isPaused(metadata),
    ...(readyAt === undefined ? {} : { readyAt }),
  };
}

/** The command line's pause is an annotation, the platform's sleep a label. */
function isPaused(metadata: RawObject): boolean {
  return (
    textAt(recordAt(metadata, 'annotations'), 'loft.sh/paused') === 'true' ||
    textAt(recordAt(metadata, 'labels'), 'loft.sh/sleep-mode') === 'true'
  );
}
