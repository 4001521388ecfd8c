import type { StepOutcome } from '../destination.ts';
import type { MetronomeRefusal, MetronomeTrouble } from './metronome-client.ts';

/** What an unexpected answer means for a step: what was refused will be refused again. */
export function failedStep(
  answer: MetronomeRefusal | MetronomeTrouble,
): Exclude<StepOutcome, { kind: 'done' }> {
  return answer.kind === 'refused' ? { kind: 'rejected', reason: answer.reason } : answer;
}
