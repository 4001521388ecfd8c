import { quote } from '../../model/quote.ts';
import type { DrainFirst, ProvisionOutcome } from '../destination.ts';
import type { FailedStep } from '../failed-step.ts';
import type { LagoSubscription } from './subscriptions.ts';

/** The old plan gets its usage first. */
export function drain(current: LagoSubscription, wanted: string, before: number): DrainFirst {
  const { planCode } = current;
  const reason = `plan ${quote(wanted)} takes over when the usage of plan ${quote(planCode)} is there`;
  return { kind: 'drain', reason, before, current: planCode, wanted };
}

/**
 * A plan that takes over when the period ends does so in Lago's run ten minutes later: usage in between is kept
 * until then, for the old plan's last invoice has it not.
 */
export function handOver(current: LagoSubscription): ProvisionOutcome {
  const { nextPlanCode, periodEndsAt } = current;
  if (nextPlanCode === undefined || periodEndsAt === undefined) return { kind: 'done' };
  return drain(current, nextPlanCode, periodEndsAt);
}

/** A plan of a lower base fee takes over at Lago's first run after the end of the period. */
export function waiting({ nextPlanCode, periodEndsAt }: LagoSubscription, now: number): FailedStep {
  const reason = `Lago puts plan ${quote(nextPlanCode ?? '')} in force when it invoices the period`;
  const afterMs = Math.max(60_000, (periodEndsAt ?? now) - now);
  return { kind: 'retry', reason, afterMs };
}
