import type { RawObject } from '../../kubernetes/source.ts';
import { isRecord } from '../../model/is-record.ts';
import { Secret } from '../../model/secret.ts';
import { MOST_KUBECONFIG_BYTES } from './read-kubeconfig.ts';

/** What was found where the kubeconfig of a tenant cluster should be. */
export type KubeconfigRead = (
  | { readonly kind: 'found'; readonly text: Secret; readonly where: string }
  /** Nobody gave one. */
  | { readonly kind: 'absent'; readonly reason: string }
  /** Something was given that is none. */
  | { readonly kind: 'refused'; readonly reason: string }
  /** Nobody knows: the question was refused or not answered. */
  | { readonly kind: 'unknown'; readonly reason: string }
) & {
  /** The API server was asked for this one alone, which thousands must not be often. */
  readonly asked?: true;
};

/** vCluster writes the first; other tools the others. */
const KEYS = ['config', 'kubeconfig', 'value'] as const;

/** The first of the keys of a Secret that has something. `where` names the Secret in reasons. */
export function readSecretData(
  secret: unknown,
  where: string,
  keys: readonly string[] = KEYS,
): KubeconfigRead {
  const data: RawObject | undefined =
    isRecord(secret) && isRecord(secret['data']) ? secret['data'] : undefined;
  for (const key of keys) {
    const value = data?.[key];
    if (typeof value !== 'string' || value === '') continue;
    return { kind: 'found', text: decode(value), where };
  }
  return { kind: 'refused', reason: `${where}: none of the keys ${keys.join(', ')}` };
}

/** No more than shows that there is too much: the reader of kubeconfigs refuses it then. */
function decode(base64: string): Secret {
  const enough = Math.ceil((MOST_KUBECONFIG_BYTES + 1) / 3) * 4;
  return new Secret(Buffer.from(base64.slice(0, enough), 'base64').toString('utf8'));
}
