import { FORGER } from '../world/honest-estate.ts';
import { controlPlane } from '../world/objects.ts';
import type { HostAttack } from './host-objects.ts';

/** Where it is forged: no namespace of a run takes it with it. */
export const FORGED_CONTROL_PLANE = `/apis/apps/v1/namespaces/${FORGER}/statefulsets/${FORGER}`;

/**
 * What runs in a tenant's namespace is given out for the control plane of a tenant cluster, which nobody pays for: the
 * pods there carry its labels all the time, and an empty StatefulSet says that they are its own. The bill stays the same.
 */
export const FORGED_CONTROL_PLANES: readonly HostAttack[] = [
  {
    name: 'an empty control plane',
    make: (random) => {
      const complete = controlPlane(Date.now() - random.between(0, 60_000), FORGER);
      const spec = { ...(complete['spec'] as object), replicas: 0 };
      const status = { observedGeneration: 1, replicas: 0 };
      return [{ api: 'host', path: FORGED_CONTROL_PLANE, object: { ...complete, spec, status } }];
    },
  },
];
