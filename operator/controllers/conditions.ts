import { formatInstant } from '../usage/window.ts';

/** A condition as it stands in a status (Kubernetes API conventions). */
export interface Condition extends ConditionClaim {
  /** The generation of the spec that it was computed from. */
  readonly observedGeneration: number;
  /** When `status` last changed, RFC 3339 to the second. */
  readonly lastTransitionTime: string;
}

/**
 * What a controller says of one aspect. `reason` and `message` are the same words for the same state:
 * no times and no numbers that move, so that an unchanged state compares equal.
 */
export interface ConditionClaim {
  readonly type: string;
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason: string;
  readonly message: string;
}

/**
 * The conditions of a status: `Ready` first, the others by name. The time of a condition moves only
 * when its status does, also over a restart, for which `previous` is what the API server has.
 */
export function conditionsOf(
  claims: readonly ConditionClaim[],
  previous: readonly Condition[],
  observedGeneration: number,
  now: number,
): Condition[] {
  return claims.toSorted(readyFirst).map((claim) => {
    const before = previous.find(({ type }) => type === claim.type);
    const lastTransitionTime =
      before?.status === claim.status ? before.lastTransitionTime : formatInstant(now);
    return { ...claim, observedGeneration, lastTransitionTime };
  });
}

function readyFirst(a: ConditionClaim, b: ConditionClaim): number {
  if (a.type === b.type) return 0;
  if (a.type === 'Ready') return -1;
  if (b.type === 'Ready') return 1;
  return a.type < b.type ? -1 : 1;
}
