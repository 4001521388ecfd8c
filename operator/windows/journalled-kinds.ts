import type { Projected } from '../kubernetes/source.ts';
import type { Observation } from '../observation/observation.ts';
import type { Timelines } from '../observation/timelines.ts';
import type { ScopeName } from './scope.ts';

/** The timelines of this cluster that the journal has, each with the scope whose closed windows settle it. */
export const JOURNALLED = {
  pods: 'pods',
  nodes: 'pods',
  gpuPods: 'gpus',
  gpuNodes: 'gpus',
  resourceClaims: 'gpus',
  resourceSlices: 'gpus',
  volumes: 'volumes',
  loadBalancers: 'load-balancers',
  workloads: 'workloads',
  namespaces: 'pods',
} as const satisfies { readonly [Name in JournalledName]: ScopeName };

type JournalledName = {
  [Name in keyof Observation]: Observation[Name] extends Timelines<never, unknown> ? Name : never;
}[keyof Observation];

/** One kind of them. */
export interface JournalledKind {
  readonly timelines: Timelines<Projected, unknown>;
  readonly scope: ScopeName;
}

/** All of them. */
export function journalledKinds(observation: Observation): readonly JournalledKind[] {
  return Object.entries(JOURNALLED).map(([name, scope]) => {
    return { timelines: observation[name as JournalledName], scope };
  });
}
