import type { Condition } from '../kubernetes/conditions.ts';
import type { KubernetesEvent } from '../kubernetes/events.ts';

/** What is told elsewhere: by `Ready`, or when the spec is looked at. */
const SILENT = new Set(['Bootstrapped', 'Delivering', 'Stalled']);

/** Tells of a transition; its message is that of the condition. */
export type Transition = Pick<KubernetesEvent, 'type' | 'reason'> & { readonly message: string };

/**
 * What happened between two sets of conditions, for people who read `kubectl describe`: an object became
 * ready or ceased to be, or something began or ceased to deserve attention. `previous` is what the API
 * server had, so that a restart of the operator is no news.
 */
export function transitions(
  previous: readonly Condition[],
  next: readonly Condition[],
): readonly Transition[] {
  const begun = next.flatMap((condition) => {
    const before = previous.find(({ type }) => type === condition.type);
    return transitionOf(condition, before);
  });
  const over = previous
    .filter(({ type }) => !SILENT.has(type) && next.every((condition) => condition.type !== type))
    .map(({ type, reason }): Transition => {
      return { type: 'Normal', reason: 'Resolved', message: `No longer so: ${type} (${reason})` };
    });
  return [...begun, ...over];
}

function transitionOf(next: Condition, before: Condition | undefined): readonly Transition[] {
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
  const asked = reason === 'Suspended';
  return [{ type: good || asked ? 'Normal' : 'Warning', reason, message }];
}
