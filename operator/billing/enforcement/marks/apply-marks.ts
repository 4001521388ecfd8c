import type { KubernetesEvent } from '../../../kubernetes/events.ts';
import type { Connection } from '../../../kubernetes/connection.ts';
import { describeFailure } from '../../../kubernetes/outcome.ts';
import { resourcePath } from '../../../kubernetes/resource.ts';
import type { ApiResource } from '../../../kubernetes/source.ts';
import type { Marks, stateKeys } from './keys.ts';
import type { PlannedMarks } from './plan-marks.ts';

export type ApplyMarksOutcome =
  /** `object` is the API server's version afterwards. */
  | { readonly kind: 'applied'; readonly object: unknown }
  /** The object was deleted, or another one has its name. */
  | { readonly kind: 'gone' }
  | { readonly kind: 'failed'; readonly reason: string };

/** Field manager of the marks. Not that of status: applying one would remove the other. */
const FIELD_MANAGER = 'meterfeed-enforcement';

const KINDS: Readonly<Record<PlannedMarks['kind'], Omit<ApiResource, 'namespace'>>> = {
  Namespace: { group: '', version: 'v1', plural: 'namespaces' },
  StatefulSet: { group: 'apps', version: 'v1', plural: 'statefulsets' },
  Deployment: { group: 'apps', version: 'v1', plural: 'deployments' },
};

/**
 * Gives an object exactly these marks by server-side apply. Earlier marks that are not among them
 * go; fields of other managers stay. The uid prevents creating an object that was just deleted, and
 * marking its successor.
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
  // With force the only possible conflict is a different uid.
  if (outcome.kind === 'status' && [404, 409].includes(outcome.code)) return { kind: 'gone' };
  return { kind: 'failed', reason: describeFailure(outcome) };
}

/** Leaves out empty maps: this field manager would own them on an object without marks. */
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

/** The Event of a control plane whose billing state changed; undefined for other changes. */
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
