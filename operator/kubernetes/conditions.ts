import { isRecord } from '../model/is-record.ts';

/** A condition of a custom resource's status, as the Kubernetes API conventions have it. */
export interface Condition {
  /** CamelCase: `Ready`, `Stalled`, … */
  readonly type: string;
  readonly status: 'True' | 'False' | 'Unknown';
  /** CamelCase, documented; the same for the same cause. */
  readonly reason: string;
  /** A capital first, no full stop, no times and no counters: equal states must read equal. */
  readonly message: string;
  /** RFC 3339, whole seconds. */
  readonly lastTransitionTime: string;
  readonly observedGeneration: number;
}

export type ConditionUpdate = Omit<Condition, 'lastTransitionTime'>;

/**
 * The conditions with one set: `Ready` first, the rest by name. The transition time moves only when
 * the status flips. `now` is milliseconds since the epoch.
 */
export function setCondition(
  conditions: readonly Condition[],
  update: ConditionUpdate,
  now: number,
): readonly Condition[] {
  const before = conditions.find(({ type }) => type === update.type);
  const lastTransitionTime =
    before?.status === update.status ? before.lastTransitionTime : wholeSeconds(now);
  const others = conditions.filter(({ type }) => type !== update.type);
  const next: Condition = {
    type: update.type,
    status: update.status,
    reason: update.reason,
    message: update.message,
    lastTransitionTime,
    observedGeneration: update.observedGeneration,
  };
  return [...others, next].toSorted(byImportance);
}

/** The conditions in a status as the API server has it; what is not one is left out. */
export function parseConditions(status: unknown): readonly Condition[] {
  const list = isRecord(status) ? status['conditions'] : undefined;
  if (!Array.isArray(list)) return [];
  return list.flatMap(parseCondition).toSorted(byImportance);
}

function parseCondition(value: unknown): readonly Condition[] {
  if (!isRecord(value)) return [];
  const { type, status, reason, message, lastTransitionTime, observedGeneration } = value;
  if (typeof type !== 'string' || typeof lastTransitionTime !== 'string') return [];
  if (status !== 'True' && status !== 'False' && status !== 'Unknown') return [];
  return [
    {
      type,
      status,
      reason: typeof reason === 'string' ? reason : '',
      message: typeof message === 'string' ? message : '',
      lastTransitionTime,
      observedGeneration: typeof observedGeneration === 'number' ? observedGeneration : 0,
    },
  ];
}

function byImportance(a: Condition, b: Condition): number {
  if (a.type === b.type) return 0;
  if (a.type === 'Ready') return -1;
  if (b.type === 'Ready') return 1;
  return a.type < b.type ? -1 : 1;
}

function wholeSeconds(now: number): string {
  return `${new Date(now).toISOString().slice(0, 19)}Z`;
}
