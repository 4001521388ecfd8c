import { type Condition, type ConditionUpdate, setCondition } from '../kubernetes/conditions.ts';

/** What a controller says of one aspect of an object. */
export type ConditionClaim = Omit<ConditionUpdate, 'observedGeneration'>;

/**
 * The conditions of a status: those that are claimed and no others, since an abnormal condition is
 * absent when all is well (kstatus). `previous` is what the API server had, so that the time of a
 * transition outlives a restart. `now` is milliseconds since the epoch.
 */
export function conditionsOf(
  claims: readonly ConditionClaim[],
  previous: readonly Condition[],
  observedGeneration: number,
  now: number,
): readonly Condition[] {
  const kept = previous.filter(({ type }) => claims.some((claim) => claim.type === type));
  return claims.reduce<readonly Condition[]>(
    (conditions, claim) => setCondition(conditions, { ...claim, observedGeneration }, now),
    kept,
  );
}
