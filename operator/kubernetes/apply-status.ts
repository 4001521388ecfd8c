import type { Connection } from './connection.ts';
import { identify } from './object-metadata.ts';
import { describeFailure } from './outcome.ts';
import { resourcePath } from './paths.ts';
import type { ApiResource } from './source.ts';

/** The object whose status is written. */
export interface StatusTarget {
  readonly resource: ApiResource;
  readonly kind: string;
  readonly name: string;
  /** Tells the object from one that was created again under its name. */
  readonly uid: string;
}

export type ApplyOutcome =
  /** `object` as the API server has it afterwards. */
  | { readonly kind: 'applied'; readonly object: unknown }
  /** The object, or this incarnation of it, is not there any more. */
  | { readonly kind: 'gone' }
  | { readonly kind: 'failed'; readonly reason: string };

/** Owner of the fields that the operator writes. */
export const FIELD_MANAGER = 'meterfeed';

/**
 * Writes the complete status by server-side apply: fields that the operator wrote before and left
 * out now are removed, fields of others stay (design 4).
 */
export async function applyStatus(
  connection: Pick<Connection, 'request'>,
  target: Omit<StatusTarget, 'uid'> & { readonly uid?: string },
  status: object,
  signal?: AbortSignal,
): Promise<ApplyOutcome> {
  const { resource, kind, name, uid } = target;
  const { group, version } = resource;
  const outcome = await connection.request(resourcePath(resource, name, 'status'), {
    method: 'PATCH',
    query: { fieldManager: FIELD_MANAGER, force: true },
    contentType: 'application/apply-patch+yaml',
    body: {
      apiVersion: group === '' ? version : `${group}/${version}`,
      kind,
      metadata: {
        name,
        ...(resource.namespace === undefined ? {} : { namespace: resource.namespace }),
      },
      status,
    },
    ...(signal === undefined ? {} : { signal }),
  });
  if (outcome.kind === 'ok') {
    // The API server does not compare uids on a status; the successor's own status will follow.
    const isSuccessor = uid !== undefined && identify(outcome.body)?.uid !== uid;
    return isSuccessor ? { kind: 'gone' } : { kind: 'applied', object: outcome.body };
  }
  if (outcome.kind === 'status' && outcome.code === 404) return { kind: 'gone' };
  return { kind: 'failed', reason: describeFailure(outcome) };
}
