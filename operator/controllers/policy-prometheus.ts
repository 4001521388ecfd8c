import { baseUrl, maskUrl } from '../config/parsers/urls.ts';
import type { PolicySettings } from '../config/settings.ts';
import { omitUndefined } from '../model/omit-undefined.ts';
import { Secret } from '../model/secret.ts';
import {
  lookUpCredential,
  lookUpHeaderValue,
  type SecretKeyRef,
  type SecretLookup,
  type SecretReads,
} from './secret-lookup.ts';
import { type InvalidSpec, invalidField } from '../config/spec-fields.ts';
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
  const address = baseUrl().parse(spec.url);
  if (address.kind === 'problem') {
    return invalidField('spec.prometheus.url', address, maskUrl(spec.url));
  }
  const url = address.value;
  const incomplete = (why: InvalidSpec): TranslatedServer => {
    const server = { url, headers: new Map<string, Secret>(), credentialProblem: why.message };
    return { kind: 'incomplete', server, why };
  };
  const headers = new Map<string, Secret>();
  for (const [index, header] of (spec.headers ?? []).entries()) {
    const { name, value = '', valueSecretRef: ref } = header;
    const field = `spec.prometheus.headers[${index}].valueSecretRef`;
    const found: SecretLookup =
      ref === undefined
        ? { kind: 'secret', secret: new Secret(value) }
        : lookUpHeaderValue(field, ref, reads);
    if (found.kind === 'invalid') return incomplete(found);
    headers.set(name, found.secret);
  }
  const credential = (field: string, ref: SecretKeyRef | undefined): SecretLookup | undefined =>
    ref && lookUpCredential(`spec.prometheus.${field}`, ref, reads);
  const token = credential('bearerTokenSecretRef', spec.bearerTokenSecretRef);
  if (token?.kind === 'invalid') return incomplete(token);
  const { basicAuth } = spec;
  const password = credential('basicAuth.passwordSecretRef', basicAuth?.passwordSecretRef);
  if (password?.kind === 'invalid') return incomplete(password);
  const named = password && new Secret(`${basicAuth?.username ?? ''}:${password.secret.reveal()}`);
  return {
    kind: 'server',
    server: { url, headers, ...omitUndefined({ bearerToken: token?.secret, basicAuth: named }) },
  };
}
