import { quote } from '../../model/quote.ts';
import type { DrainFirst, ProvisionOutcome } from '../destination.ts';
import type { FailedStep } from '../failed-step.ts';
import type { LagoSubscription } from './subscriptions.ts';

/** Returns the request to deliver the usage of the old plan first. */
export function drain(current: LagoSubscription, wanted: string, before: number): DrainFirst {
  const { planCode } = current;
  const reason = `plan ${quote(wanted)} takes over when the usage of plan ${quote(planCode)} is delivered`;
  return { kind: 'drain', reason, before, current: planCode, wanted };
}

/**
 * Returns `drain` if another plan takes over at the end of the period. Lago switches ten minutes
 * after that end. Usage in between waits until then, since the old plan's last invoice does not
 * include it.
 */
export function handOver(current: LagoSubscription): ProvisionOutcome {
  const { nextPlanCode, periodEndsAt } = current;
  if (nextPlanCode === undefined || periodEndsAt === undefined) return { kind: 'done' };
  return drain(current, nextPlanCode, periodEndsAt);
}

/**
 * Returns when to retry for a plan with a lower base fee. Lago puts it in force at its first run
 * after the end of the period.
 */
export function waiting({ nextPlanCode, periodEndsAt }: LagoSubscription, now: number): FailedStep {
  const reason = `Lago puts plan ${quote(nextPlanCode ?? '')} in force when it invoices the period`;
  const afterMs = Math.max(60_000, (periodEndsAt ?? now) - now);
  return { kind: 'retry', reason, afterMs };
}
