import type { RawObject } from '../source.ts';

/** The plural of the watched resource, such as `pods`. */
export type FixtureKind = string;

type See = (kind: FixtureKind, object: RawObject) => RawObject;

let seeing: See | undefined;

/**
 * From now on `see` receives every object that the test rigs pass to the code under test, and its
 * result replaces the object. Without it objects are passed unchanged.
 */
export function interceptFixtures(see?: See): void {
  seeing = see;
}

/** The object to pass to the code under test in place of `object`. */
export function seeFixture(kind: FixtureKind, object: RawObject): RawObject {
  return seeing === undefined ? object : seeing(kind, object);
}

/** Fixtures of control planes are StatefulSets by default. */
export function workloadKind(object: RawObject): FixtureKind {
  return object['kind'] === 'Deployment' ? 'deployments' : 'statefulsets';
}
