import type { KubernetesEvent } from '../../../kubernetes/events.ts';
import type { Connection } from '../../../kubernetes/connection.ts';
import { describeFailure } from '../../../kubernetes/outcome.ts';
import { resourcePath } from '../../../kubernetes/resource.ts';
import type { ApiResource } from '../../../kubernetes/source.ts';
import type { Marks, stateKeys } from './keys.ts';
import type { PlannedMarks } from './plan-marks.ts';

export type ApplyMarksOutcome =
  /** `object` as the API server has it afterwards. */
  | { readonly kind: 'applied'; readonly object: unknown }
  /** The object, or this incarnation of it, is not there any more. */
  | { readonly kind: 'gone' }
  | { readonly kind: 'failed'; readonly reason: string };

/** Owner of the marks; not that of status, so that applying one does not take away the other. */
const FIELD_MANAGER = 'meterfeed-enforcement';

const KINDS: Readonly<Record<PlannedMarks['kind'], Omit<ApiResource, 'namespace'>>> = {
  Namespace: { group: '', version: 'v1', plural: 'namespaces' },
  StatefulSet: { group: 'apps', version: 'v1', plural: 'statefulsets' },
  Deployment: { group: 'apps', version: 'v1', plural: 'deployments' },
};

/**
 * Gives an object exactly these marks by server-side apply: marks that were applied before and are not
 * among them go, whatever others have written stays. The uid keeps it from creating an object that has
 * just gone, and from marking its successor.
 */
export async function applyMarks(
  connection: Pick<Connection, 'request'>,
  { kind, uid, namespace, name, desired }: PlannedMarks,
  signal: AbortSignal,
): Promise<ApplyMarksOutcome> {
  const resource = KINDS[kind];
  const { group, version } = resource;
  const place = namespace === '' ? {} : { namespace };
  const outcome = await connection.request(resourcePath({ ...resource, ...place }, name), {
    method: 'PATCH',
    query: { fieldManager: FIELD_MANAGER, force: true },
    contentType: 'application/apply-patch+yaml',
    body: {
      apiVersion: group === '' ? version : `${group}/${version}`,
      kind,
      metadata: { name, ...place, uid, ...withoutEmpty(desired) },
    },
    signal,
  });
  if (outcome.kind === 'ok') return { kind: 'applied', object: outcome.body };
  // With force there is no conflict but that of the uid.
  if (outcome.kind === 'status' && [404, 409].includes(outcome.code)) return { kind: 'gone' };
  return { kind: 'failed', reason: describeFailure(outcome) };
}

/** An empty map would stay ours, and our name on an object that has nothing of ours. */
function withoutEmpty({ labels, annotations }: Marks): Partial<Marks> {
  return {
    ...(Object.keys(labels).length > 0 && { labels }),
    ...(Object.keys(annotations).length > 0 && { annotations }),
  };
}

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
