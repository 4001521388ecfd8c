import type { InvalidSpec } from '../settings/spec-fields.ts';
import { type Condition, type ConditionUpdate, setCondition } from '../kubernetes/conditions.ts';
import type { KubernetesEvent } from '../kubernetes/events.ts';

/**
 * The types of conditions, the worst first: what stops everything, what is lost or billed wrongly, what waits, what will
 * be in the way. The tables of docs/reference/troubleshooting.md#conditions have this order.
 */
export const CONDITION_TYPES = [
  'Ready',
  'LedgerDamaged',
  'MetricsUnavailable',
  'PrometheusUnreachable',
  'GPUTimeUnattributed',
  'PrometheusQueriesLeftOut',
  'DeadLetters',
  'LateRefusals',
  'InvoiceMismatch',
  'Drift',
  'PlanUnusable',
  'UnknownMetrics',
  'UnpricedUsage',
  'PricesDiffer',
  'TenantsParked',
  'UsageHeld',
  'DiscoveryProblems',
  'Conflicting',
  'DiskFilling',
  'EnforcementFailing',
  'RateLimitTooLow',
  'RetentionShortened',
  'PrometheusQueriesMany',
  'Stalled',
  'Bootstrapped',
  'Delivering',
] as const;

export type ConditionType = (typeof CONDITION_TYPES)[number];

/** What a controller says of one aspect of an object. */
export interface ConditionClaim extends Omit<ConditionUpdate, 'observedGeneration'> {
  readonly type: ConditionType;
  /** Its text in the summary; by default the message up to the first semicolon. */
  readonly brief?: string;
}

/**
 * The conditions of a status: those that are claimed and no others, since an abnormal condition is
 * absent when all is well (kstatus). `previous` is what the API server had, so that the time of
 * the last change outlives a restart. `now` is milliseconds since the epoch.
 */
export function conditionsOf(
  claims: readonly ConditionClaim[],
  previous: readonly Condition[],
  observedGeneration: number,
  now: number,
): readonly Condition[] {
  const stored = previous.filter(({ type }) => claims.some((claim) => claim.type === type));
  return claims.reduce<readonly Condition[]>(
    (conditions, claim) => setCondition(conditions, { ...claim, observedGeneration }, now),
    stored,
  );
}

/** What became of the newest spec of an object. */
export type SpecStatus =
  | { readonly kind: 'accepted' }
  /** Refused; `inForce` tells whether an earlier, good one goes on. */
  | (InvalidSpec & { readonly inForce: boolean })
  /** Not known yet, and being tried again: a Secret that cannot be read at the moment. */
  | { readonly kind: 'waiting'; readonly message: string };

const LAST_GOOD = 'the last good settings stay in force';

/**
 * `Stalled`, and only while it holds: its absence says that the newest spec is in force (kstatus). `waiting` tells what
 * follows from it where nothing is in force.
 */
export function stalledClaims(specStatus: SpecStatus, waiting?: string): readonly ConditionClaim[] {
  if (specStatus.kind !== 'invalid') return [];
  const none = `nothing is in force${waiting === undefined ? '' : `; ${waiting}`}`;
  const rest = specStatus.inForce ? LAST_GOOD : none;
  const message = `${specStatus.message} (${rest})`;
  return [{ type: 'Stalled', status: 'True', reason: specStatus.reason, message }];
}

/** `Ready` as far as the spec decides it; undefined when the engine does. */
export function readyBySpec(specStatus: SpecStatus): ConditionClaim | undefined {
  if (specStatus.kind === 'accepted') return undefined;
  if (specStatus.kind === 'invalid') {
    const { reason, inForce } = specStatus;
    const message = specStatus.message + (inForce ? `; ${LAST_GOOD}` : '');
    return { type: 'Ready', status: 'False', reason, message };
  }
  return {
    type: 'Ready',
    status: 'Unknown',
    reason: 'SecretUnreadable',
    message: specStatus.message,
  };
}

/** Conditions whose changes `Ready` reports, or the reconciliation of the spec. */
export const SILENT: ReadonlySet<string> = new Set<ConditionType>([
  'Bootstrapped',
  'Delivering',
  'Stalled',
]);

/** What a change of a condition is recorded as; its message is that of the condition. */
export type ConditionEvent = Pick<KubernetesEvent, 'type' | 'reason'> & {
  readonly message: string;
};

/**
 * What happened between two sets of conditions, for people who read `kubectl describe`: an object became
 * ready or ceased to be, or something began or ceased to deserve attention. `previous` is what the API
 * server had, so that a restart of the operator is no news.
 */
export function conditionEvents(
  previous: readonly Condition[],
  next: readonly Condition[],
): readonly ConditionEvent[] {
  const begun = next.flatMap((condition) => {
    const before = previous.find(({ type }) => type === condition.type);
    return conditionEvent(condition, before);
  });
  const over = previous
    .filter(({ type }) => !SILENT.has(type) && next.every((condition) => condition.type !== type))
    .map(({ type, reason }): ConditionEvent => {
      return { type: 'Normal', reason: 'Resolved', message: `No longer so: ${type} (${reason})` };
    });
  return [...begun, ...over];
}

function conditionEvent(next: Condition, before: Condition | undefined): readonly ConditionEvent[] {
  const { type, status, reason, message } = next;
  if (SILENT.has(type) || status === 'Unknown') return [];
  if (before?.status === status && before.reason === reason) return [];
  const good = type === 'Ready' && status === 'True';
  // Worded otherwise than the first time, so that it is no repetition.
  if (good && before?.status === 'False') {
    const resumed = `${message}, after ${before.reason}`;
    return [{ type: 'Normal', reason: 'Resumed', message: resumed }];
  }
  // What is asked for is no trouble.
  const requested = reason === 'Suspended';
  return [{ type: good || requested ? 'Normal' : 'Warning', reason, message }];
}
