import type { MeteringPolicySpec } from '../settings/custom-resources.generated.ts';
import { accentColour } from '../settings/parsers/colours.ts';
import { settlingProblem } from '../settings/parsers/durations.ts';
import { ambiguousService, categoryOf } from '../billing/focus/services.ts';
import type {
  FocusExportSettings,
  FocusSettings,
  MeteringSettings,
  PolicySettings,
  PortalSettings,
} from '../settings/settings.ts';
import {
  baseUrlField,
  credentialField,
  type FieldValue,
  headersField,
  invalidField,
  invalidSpec,
  type InvalidSpec,
  type SecretKeyRef,
  type SecretReads,
  tableFields,
  type Translation,
} from '../settings/spec-fields.ts';
import type { SettingTable } from '../settings/table/setting.ts';
import { policyField, TABLE } from '../settings/table/table.ts';
import { Secret } from '../model/secret.ts';
import { translateBudget } from './budget-settings.ts';
import { reportedMetricProblem } from './reported-metrics.ts';
import { unreadSecret } from './secret-reader.ts';

/**
 * Translates the MeteringPolicy into settings, except for its Prometheus server, which needs
 * Secrets. `environment` has the settings for fields that the policy leaves out.
 */
export function translatePolicy(
  spec: MeteringPolicySpec,
  environment: Pick<MeteringSettings, 'settlingDelayMs' | 'windowMs' | 'customMetrics'>,
): Translation<PolicySettings> {
  const sections: Record<string, unknown> = {};
  for (const [section, table] of Object.entries<SettingTable>(TABLE)) {
    if (Object.values(table).every((setting) => policyField(setting) === undefined)) continue;
    const fields = tableFields(table, 'MeteringPolicy spec', spec);
    if (fields.kind === 'invalid') return fields;
    sections[section] = fields.settings;
  }
  // Each section has the fields of its table.
  const settings = sections as PolicySettings;
  const { settlingDelayMs, windowMs, customMetrics } = { ...environment, ...settings.metering };
  const problem = settlingProblem(settlingDelayMs, windowMs);
  if (problem !== undefined) {
    return invalidField('spec.settlingDelay', problem, `${settlingDelayMs} ms of ${windowMs} ms`);
  }
  const unusable = reportedMetricProblem(settings.ingest?.cloudEvents ?? [], customMetrics);
  if (unusable !== undefined) return invalidField('spec.ingest.cloudEvents', unusable, '');
  const budget = spec.defaultBudget && translateBudget('spec.defaultBudget', spec.defaultBudget);
  if (budget?.kind === 'problems') return invalidSpec('InvalidSpec', budget.problems.join('; '));
  const portal = spec.portal && translatePortal(spec.portal);
  if (portal?.kind === 'invalid') return portal;
  const focus = spec.focus && translateFocus(spec.focus);
  if (focus?.kind === 'invalid') return focus;
  return {
    kind: 'settings',
    settings: {
      ...settings,
      defaultBudget: budget?.budget,
      portal: portal?.settings,
      focus: focus?.settings,
    },
  };
}

const COLOURS = { light: accentColour('light'), dark: accentColour('dark') } as const;

/** Translates the look of the tenants' portal (docs/how-to/portal.md#how-it-looks). */
function translatePortal(
  spec: NonNullable<MeteringPolicySpec['portal']>,
): Translation<PortalSettings> {
  for (const theme of ['light', 'dark'] as const) {
    const text = spec.colors?.[theme];
    if (text === undefined) continue;
    const parsed = COLOURS[theme].parse(text);
    if (parsed.kind === 'problem') return invalidField(`spec.portal.colors.${theme}`, parsed, text);
  }
  const { name, logo, colors, frameAncestors = [] } = spec;
  const { light, dark } = colors ?? {};
  return {
    kind: 'settings',
    settings: {
      frameAncestors,
      name,
      logo,
      colors: colors && { light, dark },
    },
  };
}

/** Translates FOCUS files, except for where they are written (docs/reference/focus.md#names). */
function translateFocus({
  export: _written,
  ...spec
}: NonNullable<MeteringPolicySpec['focus']>): Translation<FocusSettings> {
  const { services = [] } = spec;
  const where = 'spec.focus.services';
  const unknown = services.find(({ subcategory }) => categoryOf(subcategory) === undefined);
  if (unknown !== undefined) {
    const what = `not a ServiceSubcategory of FOCUS 1.2: "${unknown.subcategory}"`;
    return invalidSpec('InvalidSpec', `${where}: ${what}; use one such as Generative AI`);
  }
  const ambiguous = ambiguousService(services);
  if (ambiguous === undefined) return { kind: 'settings', settings: { ...spec, services } };
  const what = `one name for two subcategories: "${ambiguous}"`;
  return invalidSpec('InvalidSpec', `${where}: ${what}; use a name for each`);
}

/** Translates where FOCUS files are written (docs/reference/focus.md#files). */
export function translateFocusExport(
  spec: MeteringPolicySpec['focus'],
  reads: SecretReads,
): Translation<FocusExportSettings | undefined> {
  const { directory, bucket, ...written } = spec?.export ?? {};
  const { format = 'parquet', grain = 'hour', version = '1.2' } = written;
  const to = (target: FocusExportSettings['target']) => {
    return { kind: 'settings', settings: { format, grain, version, target } } as const;
  };
  if (directory !== undefined) return to({ kind: 'directory', path: directory });
  if (bucket === undefined) return { kind: 'settings', settings: undefined };
  const where = 'spec.focus.export.bucket';
  const endpoint = baseUrlField(`${where}.endpoint`, bucket.endpoint);
  if (endpoint.kind === 'invalid') return endpoint;
  const credential = (field: 'accessKeyIdSecretRef' | 'secretAccessKeySecretRef') =>
    credentialField(`${where}.${field}`, bucket[field], reads);
  const [id, secret] = [credential('accessKeyIdSecretRef'), credential('secretAccessKeySecretRef')];
  const bad = [id, secret].find((one) => one.kind === 'invalid');
  if (id.kind === 'invalid' || secret.kind === 'invalid') {
    const problem = unreadSecret(reads) ?? bad?.message ?? '';
    return to({ kind: 'unusable', problem });
  }
  return to({
    kind: 'bucket',
    endpoint: endpoint.value,
    region: bucket.region,
    name: bucket.name,
    prefix: bucket.prefix ?? '',
    accessKeyId: id.value,
    secretAccessKey: secret.value,
  });
}

type PrometheusSpec = NonNullable<MeteringPolicySpec['prometheus']>;
export type PrometheusServer = NonNullable<NonNullable<PolicySettings['prometheus']>['server']>;

/** Returns the names of the Secrets that a MeteringPolicy refers to, each once. */
export function policySecretNames({ prometheus, focus }: MeteringPolicySpec): readonly string[] {
  const bucket = focus?.export?.bucket;
  const refs: (SecretKeyRef | undefined)[] = [
    prometheus?.basicAuth?.passwordSecretRef,
    prometheus?.bearerTokenSecretRef,
    ...(prometheus?.headers ?? []).map(({ valueSecretRef }) => valueSecretRef),
    bucket?.accessKeyIdSecretRef,
    bucket?.secretAccessKeySecretRef,
  ];
  return [...new Set(refs.flatMap((ref) => (ref === undefined ? [] : [ref.name])))].toSorted();
}

export type TranslatedServer =
  | { readonly kind: 'server'; readonly server: PrometheusServer | undefined }
  /** A credential is missing; `server` is the server without credentials. */
  | { readonly kind: 'incomplete'; readonly server: PrometheusServer; readonly why: InvalidSpec }
  | InvalidSpec;

/** Translates a MeteringPolicy's Prometheus server with credentials. Undefined without a URL. */
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
      bearerToken: token?.value,
      basicAuth: named,
    },
  };
}
