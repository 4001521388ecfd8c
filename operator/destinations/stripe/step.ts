import type { StepOutcome } from '../destination.ts';
import type { StripeRefusal, StripeTrouble } from './stripe-client.ts';

/** What an unexpected answer means for a step: what is refused will be refused again. */
export function failedStep(
  answer: StripeRefusal | StripeTrouble,
): Exclude<StepOutcome, { kind: 'done' }> {
  if (answer.kind === 'refused') return { kind: 'rejected', reason: answer.reason };
  if (answer.kind === 'hold') return answer;
  const { kind, reason, afterMs } = answer;
  return { kind, reason, ...(afterMs !== undefined && { afterMs }) };
}
