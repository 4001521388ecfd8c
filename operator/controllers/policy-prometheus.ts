import type { PolicySettings } from '../config/settings.ts';
import { omitUndefined } from '../model/omit-undefined.ts';
import { Secret } from '../model/secret.ts';
import {
  baseUrlField,
  credentialField,
  type FieldValue,
  headersField,
  type InvalidSpec,
  type SecretKeyRef,
  type SecretReads,
} from '../config/spec-fields.ts';
import type { MeteringPolicySpec } from '../config/custom-resources.generated.ts';

type PrometheusSpec = NonNullable<MeteringPolicySpec['prometheus']>;
export type PrometheusServer = NonNullable<NonNullable<PolicySettings['prometheus']>['server']>;

/** The names of the Secrets that a MeteringPolicy refers to, each once. */
export function policySecretNames({ prometheus }: MeteringPolicySpec): readonly string[] {
  const refs: (SecretKeyRef | undefined)[] = [
    prometheus?.basicAuth?.passwordSecretRef,
    prometheus?.bearerTokenSecretRef,
    ...(prometheus?.headers ?? []).map(({ valueSecretRef }) => valueSecretRef),
  ];
  return [...new Set(refs.flatMap((ref) => (ref === undefined ? [] : [ref.name])))].toSorted();
}

export type TranslatedServer =
  | { readonly kind: 'server'; readonly server: PrometheusServer | undefined }
  /** A credential cannot be had; `server` is what can be said without any. */
  | { readonly kind: 'incomplete'; readonly server: PrometheusServer; readonly why: InvalidSpec }
  | InvalidSpec;

/** The Prometheus server of a MeteringPolicy with its credentials; undefined where it names none. */
export function translateServer(
  spec: PrometheusSpec | undefined,
  reads: SecretReads,
): TranslatedServer {
  if (spec?.url === undefined) return { kind: 'server', server: undefined };
  const url = baseUrlField('spec.prometheus.url', spec.url);
  if (url.kind === 'invalid') return url;
  const incomplete = (why: InvalidSpec): TranslatedServer => {
    const server = { url: url.value, headers: new Map(), credentialProblem: why.message };
    return { kind: 'incomplete', server, why };
  };
  const headers = headersField('spec.prometheus.headers', spec.headers, reads);
  if (headers.kind === 'invalid') return incomplete(headers);
  const credential = (
    field: string,
    ref: SecretKeyRef | undefined,
  ): FieldValue<Secret> | undefined =>
    ref && credentialField(`spec.prometheus.${field}`, ref, reads);
  const token = credential('bearerTokenSecretRef', spec.bearerTokenSecretRef);
  if (token?.kind === 'invalid') return incomplete(token);
  const { basicAuth } = spec;
  const password = credential('basicAuth.passwordSecretRef', basicAuth?.passwordSecretRef);
  if (password?.kind === 'invalid') return incomplete(password);
  const named = password && new Secret(`${basicAuth?.username ?? ''}:${password.value.reveal()}`);
  return {
    kind: 'server',
    server: {
      url: url.value,
      headers: headers.value,
      ...omitUndefined({ bearerToken: token?.value, basicAuth: named }),
    },
  };
}
