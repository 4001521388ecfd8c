import { POLICY_NAME } from '../controllers/metering-policy.ts';
import type { Connection } from '../kubernetes/connection.ts';
import type { RequestFailure } from '../kubernetes/outcome.ts';
import { resourcePath } from '../kubernetes/resource.ts';
import { isRecord } from '../model/is-record.ts';

/** The MeteringPolicy at the API server; undefined if there is none. */
export type StoredPolicy =
  | { readonly kind: 'ok'; readonly policy: Readonly<Record<string, unknown>> | undefined }
  | RequestFailure;

const QUERY_TIMEOUT_MS = 5_000;

/** Reads the MeteringPolicy once, before the controllers watch it. */
export async function readStoredPolicy(
  connection: Pick<Connection, 'request'>,
  signal: AbortSignal,
): Promise<StoredPolicy> {
  const resource = { group: 'meterfeed.io', version: 'v1alpha1', plural: 'meteringpolicies' };
  const outcome = await connection.request(resourcePath(resource), {
    query: { fieldSelector: `metadata.name=${POLICY_NAME}` },
    signal,
    timeoutMs: QUERY_TIMEOUT_MS,
  });
  if (outcome.kind !== 'ok') return outcome;
  const items: unknown = isRecord(outcome.body) && outcome.body['items'];
  const [policy]: readonly unknown[] = Array.isArray(items) ? items : [];
  return { kind: 'ok', policy: isRecord(policy) ? policy : undefined };
}
