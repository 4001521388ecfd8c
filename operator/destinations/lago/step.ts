import type { StepOutcome } from '../destination.ts';
import type { LagoRefusal, LagoTrouble } from './lago-client.ts';

/**
 * What an unexpected answer means for a step. A path that Lago does not know means that the URL is
 * wrong; anything else that is refused will be refused again.
 */
export function failedStep(
  answer: LagoRefusal | LagoTrouble,
): Exclude<StepOutcome, { kind: 'done' }> {
  if (answer.kind !== 'refused') return answer;
  const kind = answer.code === 'resource_not_found' ? 'hold' : 'rejected';
  return { kind, reason: answer.reason };
}
