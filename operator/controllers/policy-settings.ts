import type { MeteringPolicySpec } from '../config/custom-resources.generated.ts';
import { settlingProblem } from '../config/parsers/durations.ts';
import { allowedHost } from '../config/parsers/hosts.ts';
import { gpuResource, qualifiedName, subdomain } from '../config/parsers/kubernetes-names.ts';
import type { MeteringSettings, PolicySettings } from '../config/settings.ts';
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
  type Translation,
} from '../config/spec-fields.ts';
import { VARIABLES } from '../config/variables/variables.ts';
import { COLLECTOR_METRICS } from '../model/catalog.ts';
import { omitUndefined } from '../model/omit-undefined.ts';
import { Secret } from '../model/secret.ts';
import { translateBudget } from './budget-settings.ts';
import { translatePortal } from './portal-settings.ts';

/** Each duration of a MeteringPolicy has the bounds of the environment variable of the same meaning. */
const DURATIONS = {
  collectionInterval: VARIABLES.COLLECTION_INTERVAL.parser,
  reconcileInterval: VARIABLES.RECONCILE_INTERVAL.parser,
  maxBackfill: VARIABLES.MAX_BACKFILL.parser,
  offboardGrace: VARIABLES.OFFBOARD_GRACE.parser,
  settlingDelay: VARIABLES.SETTLING_DELAY.parser,
  retention: VARIABLES.RETENTION.parser,
} as const;

/** Each name has the form that the environment variable of the same meaning asks for. */
const NAMES = {
  gpuResources: gpuResource(),
  draGpuDrivers: subdomain('driver name', 'gpu.nvidia.com'),
  unhealthyNodeTaints: qualifiedName('taint key', 'node.kubernetes.io/not-ready'),
  skuLabel: VARIABLES.SKU_LABEL.parser,
  capacityTypeLabel: VARIABLES.CAPACITY_TYPE_LABEL.parser,
  dedicatedNodeLabel: VARIABLES.VCLUSTER_NODE_LABEL.parser,
} as const;

/** Each query is a template as the environment variable of the same meaning takes it. */
const QUERIES = {
  egressQuery: VARIABLES.EGRESS_QUERY.parser,
  gpuUtilQuery: VARIABLES.GPU_UTIL_QUERY.parser,
  gpuCountQuery: VARIABLES.GPU_COUNT_QUERY.parser,
} as const;

const NAME_FIELDS = Object.keys(NAMES) as readonly (keyof typeof NAMES)[];

type DurationField = keyof typeof DURATIONS;
type QueryField = keyof typeof QUERIES;

const DURATION_FIELDS = Object.keys(DURATIONS) as readonly DurationField[];
const MEASURED = new Set(COLLECTOR_METRICS.map((metric) => metric.code));

/**
 * The settings that the MeteringPolicy asks for, but for its Prometheus server, which needs Secrets.
 * `environment` is what holds where the policy says nothing.
 */
export function translatePolicy(
  spec: MeteringPolicySpec,
  environment: Pick<MeteringSettings, 'settlingDelayMs' | 'windowMs'>,
): Translation<PolicySettings> {
  const durations: Partial<Record<DurationField, number>> = {};
  for (const field of DURATION_FIELDS) {
    const text = spec[field];
    if (text === undefined) continue;
    const parsed = DURATIONS[field].parse(text);
    if (parsed.kind === 'problem') return invalidField(`spec.${field}`, parsed, text);
    durations[field] = parsed.value;
  }
  for (const field of NAME_FIELDS) {
    for (const text of [spec[field] ?? []].flat()) {
      const parsed = NAMES[field].parse(text);
      if (parsed.kind === 'problem') return invalidField(`spec.${field}`, parsed, text);
    }
  }
  const query = queryProblem(spec, 'spec');
  if (query !== undefined) return query;
  const settlingDelayMs = durations.settlingDelay ?? environment.settlingDelayMs;
  const windowMs = durations.collectionInterval ?? environment.windowMs;
  const problem = settlingProblem(settlingDelayMs, windowMs);
  if (problem !== undefined) {
    return invalidField('spec.settlingDelay', problem, `${settlingDelayMs} ms of ${windowMs} ms`);
  }
  const measured = spec.customMetrics?.find(({ code }) => MEASURED.has(code));
  if (measured !== undefined) {
    const message = `measured by the operator itself: "${measured.code}"; choose another code`;
    return invalidSpec('InvalidSpec', `spec.customMetrics: ${message}`);
  }
  const hosts: string[] = [];
  for (const [index, text] of (spec.tenantAPI?.allowedHosts ?? []).entries()) {
    const parsed = allowedHost().parse(text);
    if (parsed.kind === 'problem') {
      return invalidField(`spec.tenantAPI.allowedHosts[${index}]`, parsed, text);
    }
    hosts.push(parsed.value);
  }
  const budget = spec.defaultBudget && translateBudget('spec.defaultBudget', spec.defaultBudget);
  if (budget?.kind === 'problems') return invalidSpec('InvalidSpec', budget.problems.join('; '));
  const portal = spec.portal && translatePortal(spec.portal);
  if (portal?.kind === 'invalid') return portal;
  const settings = layersOf(spec, durations, hosts);
  const more = omitUndefined({ defaultBudget: budget?.budget, portal: portal?.settings });
  return { kind: 'settings', settings: { ...settings, ...more } };
}

function layersOf(
  spec: MeteringPolicySpec,
  durations: Partial<Record<DurationField, number>>,
  hosts: readonly string[],
): PolicySettings {
  const { discovery, tenantAPI, enforcement } = spec;
  return {
    identity: omitUndefined({
      zone: spec.zone,
      defaultTenantClass: spec.defaultTenantClass,
      tenantSource: spec.tenantSource,
      regionFromNode: spec.regionFromNode,
    }),
    discovery: omitUndefined({
      reconcileIntervalMs: durations.reconcileInterval,
      offboardGraceMs: durations.offboardGrace,
      watchNamespaces: discovery?.namespaces,
      sources: discovery?.sources,
      namespaceTenantKeys: discovery?.namespaceTenantKeys,
      platformCluster: discovery?.platformCluster,
      trustPlatformMetadata: discovery?.trustPlatformMetadata,
      trustWorkloadMetadata: discovery?.trustWorkloadMetadata,
    }),
    tenantApi: omitUndefined({
      enabled: tenantAPI?.enabled,
      kubeconfigSecret: tenantAPI?.kubeconfigSecret,
      adminFallback: tenantAPI?.adminFallback,
      allowedHosts: tenantAPI?.allowedHosts && hosts,
    }),
    prometheus: omitUndefined({ preset: spec.prometheus?.preset }),
    ledger: omitUndefined({ retentionMs: durations.retention }),
    ingest: omitUndefined({ unknownTenants: spec.ingest?.unknownTenants }),
    enforcement: omitUndefined({
      mode: enforcement?.mode,
      rules:
        enforcement?.rules && new Map(enforcement.rules.map((rule) => [rule.event, rule.state])),
      neverSuspend: enforcement?.neverSuspend,
    }),
    log: omitUndefined({ level: spec.logLevel }),
    metering: omitUndefined({
      windowMs: durations.collectionInterval,
      maxBackfillMs: durations.maxBackfill,
      settlingDelayMs: durations.settlingDelay,
      cpuMemoryBasis: spec.cpuMemoryBasis,
      meterControlPlane: spec.meterControlPlane,
      meterByNamespace: spec.meterByNamespace,
      meterByQueue: spec.meterByQueue,
      gpuQuantity: spec.gpuQuantity,
      podLifetime: spec.podLifetime,
      privateNodeBilling: spec.privateNodeBilling,
      ownNodeTrust: spec.ownNodeTrust,
      ownNodeDowntimePercent: spec.ownNodeDowntimePercent,
      maxOwnNodes: spec.maxOwnNodes,
      excludeNamespaces: spec.excludeNamespaces,
      egressQuery: spec.egressQuery,
      gpuUtilQuery: spec.gpuUtilQuery,
      gpuCountQuery: spec.gpuCountQuery,
      watchDeletions: spec.watchDeletions,
      gpuResources: spec.gpuResources,
      draGpuDrivers: spec.draGpuDrivers,
      unhealthyNodeTaints: spec.unhealthyNodeTaints,
      skuLabel: spec.skuLabel,
      capacityTypeLabel: spec.capacityTypeLabel,
      dedicatedNodeLabel: spec.dedicatedNodeLabel,
      customMetrics: spec.customMetrics?.map(({ code, unit, dimensions }) => ({
        code,
        unit,
        dimensions: dimensions ?? [],
      })),
    }),
  };
}

/** What is wrong with the query templates of a spec; undefined when nothing is. `below` is where they stand. */
export function queryProblem(
  fields: Readonly<Partial<Record<QueryField, string>>>,
  below: string,
): InvalidSpec | undefined {
  for (const field of Object.keys(QUERIES) as QueryField[]) {
    const text = fields[field];
    if (text === undefined) continue;
    const parsed = QUERIES[field].parse(text);
    if (parsed.kind === 'problem') return invalidField(`${below}.${field}`, parsed, text);
  }
  return undefined;
}

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
