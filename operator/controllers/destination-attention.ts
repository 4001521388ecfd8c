import type { DriftReport } from '../delivery/drift.ts';
import type { ConditionClaim } from './conditions.ts';
import type { DestinationProgress } from './views.ts';

const DAY_MS = 86_400_000;

/**
 * What an operator should look at although delivery goes on: each claim is there only while it holds,
 * and its message says what to do (docs/operations.md). Messages carry no counters; status fields do.
 */
export function attentionClaims(
  progress: DestinationProgress | undefined,
): readonly ConditionClaim[] {
  if (progress === undefined) return [];
  const claims: ConditionClaim[] = [];
  const { name, deadLetters, parkedTenants, unpriced, lateRefusals } = progress;
  if (deadLetters > 0) {
    claims.push({
      type: 'DeadLetters',
      status: 'True',
      reason: 'EventsRefused',
      message: `Events cannot be delivered as they are; GET /api/v1/destinations/${name}/dead-letters gives each with its reason, to be replayed or discarded`,
    });
  }
  if (parkedTenants.length > 0) {
    claims.push({
      type: 'TenantsParked',
      status: 'True',
      reason: 'TenantRefused',
      message:
        'Events of the tenants in status.parkedTenants wait until the cause is mended; they are tried again by themselves, and other tenants are not held up',
    });
  }
  if (unpriced.length > 0) {
    const { metric, sku, plan } = unpriced[0] ?? { metric: '', plan: '' };
    const usage = sku === undefined ? metric : `${metric} of "${sku}"`;
    claims.push({
      type: 'UnpricedUsage',
      status: 'True',
      reason: 'NoPrice',
      message: `Usage came that nobody has priced, such as ${usage} in plan "${plan}"; set a price there`,
    });
  }
  const [refusal] = lateRefusals;
  if (refusal !== undefined) {
    const such = refusal.example === undefined ? '' : `, such as event ${refusal.example}`;
    claims.push({
      type: 'LateRefusals',
      status: 'True',
      reason: 'UsageNotBilled',
      message: `The billing system took usage and found later that it cannot bill it${such}: ${refusal.reason}; mend the cause there and enter what is missing by hand, since it counts as delivered`,
    });
  }
  const drift = progress.drift && driftClaim(name, progress.drift);
  if (drift !== undefined) claims.push(drift);
  if (progress.tooSlow !== undefined) {
    const { allowed, needed } = progress.tooSlow;
    claims.push({
      type: 'RateLimitTooLow',
      status: 'True',
      reason: 'UsageComesFaster',
      message: `About ${needed} events a second come, and the billing system takes ${allowed}; have its limit raised to ${needed}, or make windows longer. Until then delivery falls behind, and nothing is lost`,
    });
  }
  return claims;
}

function driftClaim(name: string, { day, examples }: DriftReport): ConditionClaim | undefined {
  const [first] = examples;
  if (first === undefined) return undefined;
  const dateOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);
  const from = dateOf(day);
  const { tenant, metric, difference } = first;
  return {
    type: 'Drift',
    status: 'True',
    reason: 'SumsDiffer',
    message: `What the billing system has of ${from} differs from what it was given, such as ${metric} of tenant ${tenant} by ${difference}; GET /api/v1/reconcile?destination=${name}&from=${from}&to=${dateOf(day + DAY_MS)} shows every sum`,
  };
}
