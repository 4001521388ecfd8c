import type { KubernetesEvent } from '../../kubernetes/events.ts';
import type { stateKeys } from './keys.ts';
import type { PlannedMarks } from './plan-marks.ts';

const REASONS: Readonly<Record<string, string>> = {
  active: 'BillingStateActive',
  warning: 'BillingStateWarning',
  delinquent: 'BillingStateDelinquent',
  suspended: 'BillingStateSuspended',
};

/** The Kubernetes Event for a control plane whose billing state has changed; undefined for other changes. */
export function stateEvent(
  { kind, uid, namespace, name, observed, desired }: PlannedMarks,
  keys: ReturnType<typeof stateKeys>,
): KubernetesEvent | undefined {
  if (kind === 'Namespace') return undefined;
  const before = observed.labels[keys.state] ?? 'active';
  const state = desired.labels[keys.state] ?? 'active';
  if (before === state) return undefined;
  const cause = desired.annotations[keys.reason];
  const why = cause === undefined ? '' : `: ${cause}`;
  return {
    regarding: { apiVersion: 'apps/v1', kind, namespace, name, uid },
    type: state === 'active' ? 'Normal' : 'Warning',
    reason: REASONS[state] ?? 'BillingStateChanged',
    action: 'Enforcement',
    note: `The billing state is ${state}, it was ${before}${why}`,
  };
}
