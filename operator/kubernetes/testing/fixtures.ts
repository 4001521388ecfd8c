import type { RawObject } from '../source.ts';

/** The plural of what a test's code under test is told of, such as `pods`. */
export type FixtureKind = string;

type See = (kind: FixtureKind, object: RawObject) => RawObject;

let seeing: See | undefined;

/**
 * From here on `see` is given every object that the test rigs hand to the code under test, and what
 * it gives back takes the object's place. Without it objects stay as they are written.
 */
export function interceptFixtures(see?: See): void {
  seeing = see;
}

/** What the code under test is to be told in the place of `object`. */
export function seeFixture(kind: FixtureKind, object: RawObject): RawObject {
  return seeing === undefined ? object : seeing(kind, object);
}

/** Fixtures of control planes are StatefulSets unless they say otherwise. */
export function workloadKind(object: RawObject): FixtureKind {
  return object['kind'] === 'Deployment' ? 'deployments' : 'statefulsets';
}
