import { omitUndefined } from '../model/omit-undefined.ts';
import type { Secret } from '../model/secret.ts';
import type {
  DestinationSettings,
  EnforcementSettings,
  HttpSettings,
  MeteringSettings,
  OtlpSettings,
  Settings,
} from './settings.ts';
import type { Values } from './variables/variables.ts';

/** The settings that the values of the environment make, before any custom resource. */
export function assembleSettings(
  values: Values,
  destinations: readonly DestinationSettings[],
  webhookSecrets: EnforcementSettings['webhookSecrets'],
): Settings {
  const [database, ...furtherDatabases] = values.LEDGER_URL ?? [];
  return {
    role: values.ROLE,
    identity: {
      region: values.REGION,
      clusterName: values.CLUSTER_NAME,
      regionFromNode: values.REGION_FROM_NODE,
      tenantSource: values.TENANT_SOURCE,
      labelPrefix: values.LABEL_PREFIX,
      ...omitUndefined({ zone: values.ZONE, defaultTenantClass: values.DEFAULT_TENANT_CLASS }),
    },
    discovery: {
      reconcileIntervalMs: values.RECONCILE_INTERVAL,
      offboardGraceMs: values.OFFBOARD_GRACE,
      trustPlatformMetadata: values.TRUST_PLATFORM_METADATA,
      trustWorkloadMetadata: values.TRUST_WORKLOAD_METADATA,
      watchNamespaces: values.WATCH_NAMESPACES,
      sources: values.DISCOVERY_SOURCES,
      namespaceTenantKeys: values.NAMESPACE_TENANT_KEYS,
      ...omitUndefined({ platformCluster: values.PLATFORM_CLUSTER }),
    },
    metering: assembleMetering(values),
    tenantApi: {
      enabled: values.TENANT_API,
      kubeconfigSecret: values.TENANT_KUBECONFIG_SECRET,
      adminFallback: values.TENANT_ADMIN_FALLBACK,
      allowedHosts: values.TENANT_API_ALLOWED_HOSTS,
      ...omitUndefined({ clustersFile: values.TENANT_CLUSTERS_FILE }),
    },
    prometheus: {
      headers: values.PROMETHEUS_HEADERS ?? new Map<string, Secret>(),
      preset: values.PROMETHEUS_PRESET,
      ...omitUndefined({
        url: values.PROMETHEUS_URL?.url,
        basicAuth: values.PROMETHEUS_URL?.basicAuth,
        bearerTokenFile: values.PROMETHEUS_BEARER_TOKEN_FILE,
        metricsFile: values.PROMETHEUS_METRICS_FILE,
      }),
    },
    ledger: {
      dataDir: values.DATA_DIR,
      retentionMs: values.RETENTION,
      durability: values.LEDGER_DURABILITY,
      ...omitUndefined({ database, databaseFile: values.LEDGER_URL_FILE }),
      ...(furtherDatabases.length > 0 && { furtherDatabases }),
    },
    ingest: { unknownTenants: values.INGEST_UNKNOWN_TENANTS },
    http: assembleHttp(values),
    enforcement: {
      mode: values.ENFORCEMENT_MODE,
      rules: values.ENFORCEMENT_RULES,
      neverSuspend: [],
      webhookSecrets,
    },
    billing: {
      destinations,
      defaultPlanCode: values.DEFAULT_PLAN_CODE,
      currency: values.BILLING_CURRENCY,
    },
    pricing: { books: [] },
    portal: { frameAncestors: [] },
    log: { level: values.LOG_LEVEL, format: values.LOG_FORMAT },
    ...omitUndefined({ otlp: assembleOtlp(values) }),
    overrides: [],
  };
}

function assembleOtlp(values: Values): OtlpSettings | undefined {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint } = values;
  if (endpoint === undefined) return undefined;
  return {
    endpoint,
    headers: values.OTEL_EXPORTER_OTLP_HEADERS ?? new Map<string, Secret>(),
    intervalMs: values.OTEL_METRIC_EXPORT_INTERVAL,
  };
}

/** Where nothing is said of ingest, the tokens of the API are good for it. */
function assembleHttp(values: Values): HttpSettings {
  const { INGEST_TOKEN, INGEST_TOKEN_FILE, API_TOKEN = [], API_TOKEN_FILE } = values;
  const own = INGEST_TOKEN !== undefined || INGEST_TOKEN_FILE !== undefined;
  return {
    ...values.LISTEN_ADDR,
    apiTokens: API_TOKEN,
    ingestTokens: own ? (INGEST_TOKEN ?? []) : API_TOKEN.map((token) => ({ token })),
    portalKeys: values.PORTAL_KEYS ?? [],
    ...omitUndefined({
      probe: values.PROBE_ADDR,
      apiTokenFile: API_TOKEN_FILE,
      ingestTokenFile: own ? INGEST_TOKEN_FILE : API_TOKEN_FILE,
      portalKeysFile: values.PORTAL_KEYS_FILE,
    }),
  };
}

function assembleMetering(values: Values): MeteringSettings {
  return {
    windowMs: values.COLLECTION_INTERVAL,
    maxBackfillMs: values.MAX_BACKFILL,
    settlingDelayMs: values.SETTLING_DELAY,
    cpuMemoryBasis: values.CPU_MEMORY_BASIS,
    meterControlPlane: values.METER_CONTROL_PLANE,
    meterByNamespace: values.METER_BY_NAMESPACE,
    meterByQueue: values.METER_BY_QUEUE,
    gpuQuantity: values.GPU_QUANTITY,
    podLifetime: values.POD_LIFETIME,
    privateNodeBilling: values.PRIVATE_NODE_BILLING,
    ownNodeTrust: values.OWN_NODE_TRUST,
    maxOwnNodes: values.MAX_OWN_NODES,
    excludeNamespaces: values.TENANT_EXCLUDE_NAMESPACES,
    gpuResources: values.GPU_RESOURCES,
    capacityTypeLabel: values.CAPACITY_TYPE_LABEL ?? `${values.LABEL_PREFIX}/capacity-type`,
    unhealthyNodeTaints: values.UNHEALTHY_NODE_TAINTS,
    watchDeletions: values.WATCH_DELETIONS,
    draGpuDrivers: values.DRA_GPU_DRIVERS,
    customMetrics: values.CUSTOM_METRICS,
    ownNodeDowntimePercent: values.OWN_NODE_DOWNTIME_PERCENT,
    ...omitUndefined({
      skuLabel: values.SKU_LABEL,
      dedicatedNodeLabel: values.VCLUSTER_NODE_LABEL,
      egressQuery: values.EGRESS_QUERY,
      gpuUtilQuery: values.GPU_UTIL_QUERY,
      gpuCountQuery: values.GPU_COUNT_QUERY,
    }),
  };
}
