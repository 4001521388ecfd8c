import { isRecord } from '../model/is-record.ts';

/** A condition of a custom resource's status, in the form of the Kubernetes API conventions. */
export interface Condition {
  /** CamelCase: `Ready`, `Stalled`, … */
  readonly type: string;
  readonly status: 'True' | 'False' | 'Unknown';
  /** CamelCase, documented; the same for the same cause. */
  readonly reason: string;
  /** A capital, no full stop, no times, no counters: equal states need equal texts. */
  readonly message: string;
  /** RFC 3339, whole seconds. */
  readonly lastTransitionTime: string;
  readonly observedGeneration: number;
}

export type ConditionUpdate = Omit<Condition, 'lastTransitionTime'>;

/**
 * Returns the conditions with one added or replaced: `Ready` first, the others by name. The
 * transition time changes only when the status does. `now` is milliseconds since the epoch.
 */
export function setCondition(
  conditions: readonly Condition[],
  update: ConditionUpdate,
  now: number,
): readonly Condition[] {
  const before = conditions.find(({ type }) => type === update.type);
  const lastTransitionTime =
    before?.status === update.status ? before.lastTransitionTime : formatSeconds(now);
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

/** The conditions of a status as the API server returns it; malformed entries are left out. */
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

function formatSeconds(now: number): string {
  return `${new Date(now).toISOString().slice(0, 19)}Z`;
}
