import type { InvalidSpec } from '../settings/spec-fields.ts';
import { type Condition, type ConditionUpdate, setCondition } from '../kubernetes/conditions.ts';
import type { KubernetesEvent } from '../kubernetes/events.ts';

/**
 * The types of conditions, the worst first: everything stops, usage is lost or billed wrongly,
 * usage waits, trouble ahead. The tables of docs/reference/troubleshooting.md#conditions have this
 * order.
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
  'AnchorsFailing',
  'FocusExportFailing',
  'RateLimitTooLow',
  'RetentionShortened',
  'PrometheusQueriesMany',
  'Stalled',
  'Bootstrapped',
  'Delivering',
] as const;

export type ConditionType = (typeof CONDITION_TYPES)[number];

/** A controller's statement about one condition of an object. */
export interface ConditionClaim extends Omit<ConditionUpdate, 'observedGeneration'> {
  readonly type: ConditionType;
  /** Text in the summary; by default the message up to the first semicolon. */
  readonly brief?: string;
}

/**
 * Returns the conditions of a status: exactly those that are claimed. An abnormal condition is
 * absent if nothing is wrong (kstatus). `previous` comes from the API server, so that the time of
 * the last change survives a restart. `now` is milliseconds since the epoch.
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

/** The outcome of the newest spec of an object. */
export type SpecStatus =
  | { readonly kind: 'accepted' }
  /** Refused. `inForce`: an earlier, valid spec stays in force. */
  | (InvalidSpec & { readonly inForce: boolean })
  /** Unknown and retried: a Secret cannot be read at the moment. */
  | { readonly kind: 'waiting'; readonly message: string };

const LAST_GOOD = 'the last good settings stay in force';

/**
 * Returns the condition `Stalled` for an invalid spec, else nothing: its absence means that the
 * newest spec is in force (kstatus). `waiting` is a text about the consequence if nothing is in
 * force.
 */
export function stalledClaims(specStatus: SpecStatus, waiting?: string): readonly ConditionClaim[] {
  if (specStatus.kind !== 'invalid') return [];
  const none = `nothing is in force${waiting === undefined ? '' : `; ${waiting}`}`;
  const effect = specStatus.inForce ? LAST_GOOD : none;
  const message = `${specStatus.message} (${effect})`;
  return [{ type: 'Stalled', status: 'True', reason: specStatus.reason, message }];
}

/** Returns the condition `Ready` of an unusable spec; undefined if the spec is accepted. */
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

/** Conditions without Events: `Ready`, or the reconciliation of the spec, reports them. */
export const SILENT: ReadonlySet<string> = new Set<ConditionType>([
  'Bootstrapped',
  'Delivering',
  'Stalled',
]);

/** The Kubernetes Event for a change of a condition. */
export type ConditionEvent = Pick<KubernetesEvent, 'type' | 'reason'> & {
  readonly message: string;
};

/**
 * Returns Events for the changes between two sets of conditions, for readers of `kubectl describe`:
 * an object became ready or not ready, or a condition appeared or ended. `previous` comes from the
 * API server, so that a restart of the operator causes no Events.
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
      return {
        type: 'Normal',
        reason: 'Resolved',
        message: `Condition ended: ${type} (${reason})`,
      };
    });
  return [...begun, ...over];
}

function conditionEvent(next: Condition, before: Condition | undefined): readonly ConditionEvent[] {
  const { type, status, reason, message } = next;
  if (SILENT.has(type) || status === 'Unknown') return [];
  if (before?.status === status && before.reason === reason) return [];
  const good = type === 'Ready' && status === 'True';
  // The text differs from the first Event, so that it is not counted as a repetition.
  if (good && before?.status === 'False') {
    const resumed = `${message}, after ${before.reason}`;
    return [{ type: 'Normal', reason: 'Resumed', message: resumed }];
  }
  // A suspension is intended, so it is no warning.
  const isIntended = reason === 'Suspended';
  return [{ type: good || isIntended ? 'Normal' : 'Warning', reason, message }];
}
