import type { RawObject } from '../../kubernetes/source.ts';

/** Kinds of object that a world is told of. */
export type FixtureKind =
  | 'pods'
  | 'nodes'
  | 'persistentvolumeclaims'
  | 'services'
  | 'statefulsets'
  | 'resourceclaims'
  | 'resourceslices';

type Recorder = (kind: FixtureKind, object: RawObject) => void;

let recorder: Recorder | undefined;

/** From here on `record` is told of every object that any world sees. */
export function recordObjects(record: Recorder): void {
  recorder = record;
}

export function seeFixture(kind: FixtureKind, object: RawObject): RawObject {
  recorder?.(kind, object);
  return object;
}
