import type { Projected, RawObject } from '../kubernetes/source.ts';
import { amountAt } from './amount.ts';
import { type ObjectLabels, objectLabels } from './object-labels.ts';
import { recordAt, textAt, timeAt } from './raw-fields.ts';

/** What of a PersistentVolumeClaim bears on billing. */
export interface VolumeClaimView extends Projected {
  readonly labels: ObjectLabels;
  readonly createdAt: number;
  /** Phase Bound: a volume exists for it, mounted or not. */
  readonly bound: boolean;
  /** Nano-bytes: what was provisioned, else what was asked for (design 7, Storage). */
  readonly size: bigint;
  /** Storage class, `default` when the claim names none. */
  readonly storageClass: string;
}

const BETA_STORAGE_CLASS = 'volume.beta.kubernetes.io/storage-class';

/** Takes out of a PersistentVolumeClaim what bears on billing (design 7, Storage). */
export function projectVolumeClaim(object: RawObject): VolumeClaimView | undefined {
  const metadata = recordAt(object, 'metadata');
  const uid = textAt(metadata, 'uid');
  const name = textAt(metadata, 'name');
  if (uid === undefined || name === undefined) return undefined;
  const spec = recordAt(object, 'spec');
  const status = recordAt(object, 'status');
  const requested = recordAt(recordAt(spec, 'resources'), 'requests');
  return {
    uid,
    name,
    namespace: textAt(metadata, 'namespace') ?? '',
    labels: objectLabels(metadata),
    createdAt: timeAt(metadata, 'creationTimestamp') ?? 0,
    bound: status['phase'] === 'Bound',
    size: amountAt(recordAt(status, 'capacity'), 'storage') ?? amountAt(requested, 'storage') ?? 0n,
    storageClass:
      textAt(spec, 'storageClassName') ??
      textAt(recordAt(metadata, 'annotations'), BETA_STORAGE_CLASS) ??
      'default',
  };
}
