import { describe, expect, test } from 'vitest';
import { loadEnvironment } from './load-environment.ts';
import type { Settings } from './settings.ts';
import { type Effect, optionOf, revealed, testEffects } from './testing/effects.ts';
import { settingsFrom } from './testing/settings.ts';
import { settings, variables } from './table/table.ts';
import { DESTINATIONS } from '../destinations/registry.ts';

const WEBHOOK = { ADAPTERS: 'webhook', WEBHOOK_URL: 'https://hooks.example.com/in' };
const PORTAL_KEY = `-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f
-----END PRIVATE KEY-----`;
const COLLECTOR = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c:4318' };

function destination(settings: Settings) {
  return settings.billing.destinations[0];
}

const EFFECTS: readonly Effect[] = [
  ['ADAPTERS', 'noop', (s) => destination(s)?.type, 'noop'],
  ['ADAPTER', 'noop', (s) => destination(s)?.type, 'noop'],
  [
    'DESTINATIONS_START_FROM',
    'earliest',
    (s) => destination(s)?.startFrom,
    'earliest',
    { ADAPTERS: 'noop' },
  ],
  [
    'DESTINATIONS_PLAN_CHANGE',
    'period-end',
    (s) => destination(s)?.planChange,
    'period-end',
    { ADAPTERS: 'noop' },
  ],
  ['DESTINATIONS_MODE', 'live', (s) => destination(s)?.mode, 'live', { ADAPTERS: 'noop' }],
  ['SPOT_DISCOUNT_PERCENT', '70', (s) => s.billing.destinations, []],
  ['DEFAULT_PLAN_CODE', 'gold', (s) => s.billing.defaultPlanCode, 'gold'],
  ['BILLING_CURRENCY', 'eur', (s) => s.billing.currency, 'EUR'],
  ['REGION', 'eu-1', (s) => s.identity.region, 'eu-1'],
  ['CLUSTER_NAME', 'cp-1', (s) => s.identity.clusterName, 'cp-1'],
  ['CLUSTER_NAME', 'cp-1', optionOf('webhook', 'source'), 'cp-1', WEBHOOK],
  ['ZONE', 'z9', (s) => s.identity.zone, 'z9'],
  ['REGION_FROM_NODE', 'true', (s) => s.identity.regionFromNode, true],
  ['LABEL_PREFIX', 'billing.example.com', (s) => s.identity.labelPrefix, 'billing.example.com'],
  [
    'LABEL_PREFIX',
    'billing.example.com',
    (s) => s.metering.capacityTypeLabel,
    'billing.example.com/capacity-type',
  ],
  ['DEFAULT_TENANT_CLASS', 'public', (s) => s.identity.defaultTenantClass, 'public'],
  ['TENANT_SOURCE', 'project', (s) => s.identity.tenantSource, 'project'],
  ['SKU_LABEL', 'example.com/sku', (s) => s.metering.skuLabel, 'example.com/sku'],
  ['CAPACITY_TYPE_LABEL', 'x/y', (s) => s.metering.capacityTypeLabel, 'x/y'],
  ['RECONCILE_INTERVAL', '1m30s', (s) => s.discovery.reconcileIntervalMs, 90_000],
  ['OFFBOARD_GRACE', '2d', (s) => s.discovery.offboardGraceMs, 172_800_000],
  ['WATCH_NAMESPACES', 'team-a, team-b', (s) => s.discovery.watchNamespaces, ['team-a', 'team-b']],
  ['spec.discovery.sources', 'namespaces', (s) => s.discovery.sources, ['namespaces']],
  [
    'spec.discovery.namespaceTenantKeys',
    'capsule.clastix.io/tenant, *.tree.hnc.x-k8s.io/depth',
    (s) => s.discovery.namespaceTenantKeys,
    ['capsule.clastix.io/tenant', '*.tree.hnc.x-k8s.io/depth'],
  ],
  ['PLATFORM_CLUSTER', 'c1', (s) => s.discovery.platformCluster, 'c1'],
  ['spec.discovery.trustPlatformMetadata', 'TRUE', (s) => s.discovery.trustPlatformMetadata, true],
  ['spec.discovery.trustWorkloadMetadata', 'TRUE', (s) => s.discovery.trustWorkloadMetadata, true],
  ['TENANT_API', 'no', (s) => s.tenantApi.enabled, false],
  ['TENANT_KUBECONFIG_SECRET', 'reader', (s) => s.tenantApi.kubeconfigSecret, 'reader'],
  ['TENANT_ADMIN_FALLBACK', 'true', (s) => s.tenantApi.adminFallback, true],
  [
    'spec.tenantAPI.allowedHosts',
    'api.example.com,10.0.0.0/8',
    (s) => s.tenantApi.allowedHosts,
    ['api.example.com', '10.0.0.0/8'],
  ],
  [
    'TENANT_CLUSTERS_FILE',
    '/etc/x/clusters.yaml',
    (s) => s.tenantApi.clustersFile,
    '/etc/x/clusters.yaml',
  ],
  ['COLLECTION_INTERVAL', '5m', (s) => s.metering.windowMs, 300_000],
  ['spec.settlingDelay', '500ms', (s) => s.metering.settlingDelayMs, 500],
  ['MAX_BACKFILL', '0s', (s) => s.metering.maxBackfillMs, 0],
  ['CPU_MEMORY_BASIS', 'max', (s) => s.metering.cpuMemoryBasis, 'max'],
  ['spec.podLifetime', 'scheduled', (s) => s.metering.podLifetime, 'scheduled'],
  ['METER_CONTROL_PLANE', 'true', (s) => s.metering.meterControlPlane, true],
  ['METER_BY_NAMESPACE', 'true', (s) => s.metering.meterByNamespace, true],
  ['spec.meterByQueue', 'true', (s) => s.metering.meterByQueue, true],
  ['spec.gpuQuantity', 'devices', (s) => s.metering.gpuQuantity, 'devices'],
  ['WATCH_DELETIONS', 'false', (s) => s.metering.watchDeletions, false],
  [
    'CUSTOM_METRICS',
    'llm_tokens:tokens:model|tier,jobs:jobs',
    (s) => s.metering.customMetrics,
    [
      { code: 'llm_tokens', unit: 'tokens', dimensions: ['model', 'tier'] },
      { code: 'jobs', unit: 'jobs', dimensions: [] },
    ],
  ],
  ['GPU_RESOURCES', 'none', (s) => s.metering.gpuResources, []],
  ['DRA_GPU_DRIVERS', 'gpu.example.com', (s) => s.metering.draGpuDrivers, ['gpu.example.com']],
  [
    'UNHEALTHY_NODE_TAINTS',
    'example.com/broken',
    (s) => s.metering.unhealthyNodeTaints,
    ['example.com/broken'],
  ],
  [
    'VCLUSTER_NODE_LABEL',
    'dedicated-to=%s',
    (s) => s.metering.dedicatedNodeLabel,
    'dedicated-to=%s',
  ],
  ['spec.privateNodeDowntimePercent', '25', (s) => s.metering.privateNodeDowntimePercent, 25],
  ['spec.maxPrivateNodes', '5000', (s) => s.metering.maxPrivateNodes, 5000],
  ['spec.privateNodeTrust', 'provider', (s) => s.metering.privateNodeTrust, 'provider'],
  ['PRIVATE_NODE_BILLING', 'usage', (s) => s.metering.privateNodeBilling, 'usage'],
  ['TENANT_EXCLUDE_NAMESPACES', 'none', (s) => s.metering.excludeNamespaces, []],
  [
    'PROMETHEUS_URL',
    'https://u:p%40w@prom.example.com/api/',
    (s) => [s.prometheus.url, s.prometheus.basicAuth],
    ['https://prom.example.com/api', 'u:p@w'],
  ],
  ['PROMETHEUS_HEADERS', 'X-Scope-OrgID=7', (s) => s.prometheus.headers, { 'X-Scope-OrgID': '7' }],
  ['PROMETHEUS_BEARER_TOKEN_FILE', '/t', (s) => s.prometheus.bearerTokenFile, '/t'],
  ['PROMETHEUS_PRESET', 'vcluster-platform', (s) => s.prometheus.preset, 'vcluster-platform'],
  ['PROMETHEUS_METRICS_FILE', '/m', (s) => s.prometheus.metricsFile, '/m'],
  [
    'EGRESS_QUERY',
    'sum(x{n="{{namespace}}"}[{{window}}])',
    (s) => s.metering.egressQuery,
    'sum(x{n="{{namespace}}"}[{{window}}])',
  ],
  ['GPU_UTIL_QUERY', 'none', (s) => s.metering.gpuUtilQuery, 'none'],
  ['GPU_COUNT_QUERY', 'count(y)', (s) => s.metering.gpuCountQuery, 'count(y)'],
  ['DATA_DIR', '/data/', (s) => s.ledger.dataDir, '/data'],
  [
    'LEDGER_URL',
    'postgresql://m:secret@db/ledger',
    (s) => [s.ledger.database?.host, s.ledger.database?.password],
    ['db', 'secret'],
  ],
  ['ROLE', 'hub', (s) => s.role, 'hub', { LEDGER_URL: 'postgresql://m:secret@db/ledger' }],
  [
    'REPLICATED',
    'true',
    (s) => s.ledger.database?.host,
    'db',
    { LEDGER_URL: 'postgresql://m:secret@db/ledger' },
  ],
  ['LEDGER_URL_FILE', '/run/url', (s) => s.ledger.databaseFile, '/run/url'],
  ['LEDGER_DURABILITY', 'storage', (s) => s.ledger.durability, 'storage'],
  ['RETENTION', '30d', (s) => s.ledger.retentionMs, 2_592_000_000],
  ['LISTEN_ADDR', '[::1]:9090', (s) => [s.http.host, s.http.port], ['::1', 9090]],
  ['PROBE_ADDR', ':8081', (s) => s.http.probe, { host: '', port: 8081 }],
  [
    'API_TOKEN',
    'new,old',
    (s) => [s.http.apiTokens, s.http.ingestTokens.map(({ token }) => token)],
    [
      ['new', 'old'],
      ['new', 'old'],
    ],
  ],
  [
    'API_TOKEN_FILE',
    '/t/api',
    (s) => [s.http.apiTokenFile, s.http.ingestTokenFile],
    ['/t/api', '/t/api'],
  ],
  ['INGEST_TOKEN_FILE', '/t/ingest', (s) => s.http.ingestTokenFile, '/t/ingest'],
  ['PORTAL_KEYS', PORTAL_KEY, (s) => s.http.portalKeys, [PORTAL_KEY]],
  ['PORTAL_KEYS_FILE', '/t/portal', (s) => s.http.portalKeysFile, '/t/portal'],
  [
    'INGEST_TOKEN',
    'push,gpu;metrics=tenant_gpu_hours;tenants=acme|globex',
    (s) => [s.http.apiTokens, s.http.ingestTokens],
    [
      [],
      [
        { token: 'push' },
        { token: 'gpu', metrics: ['tenant_gpu_hours'], tenants: ['acme', 'globex'] },
      ],
    ],
  ],
  ['spec.ingest.unknownTenants', 'create', (s) => s.ingest.unknownTenants, 'create'],
  ['spec.ingest.window', '5m', (s) => s.ingest.windowMs, 300_000],
  ['spec.ingest.lateFor', '24h', (s) => s.ingest.lateForMs, 86_400_000],
  ['spec.ingest.entitlementAccessQuery', 'true', (s) => s.ingest.entitlementAccessQuery, true],
  [
    'spec.ingest.subjects',
    'team-*=acme,*=other',
    (s) => s.ingest.subjects,
    [
      { subject: 'team-*', tenant: 'acme' },
      { subject: '*', tenant: 'other' },
    ],
  ],
  [
    'spec.ingest.cloudEvents',
    'litellm,kong',
    (s) => s.ingest.cloudEvents.map(({ type }) => type),
    ['litellm_tokens', 'kong.llm_request'],
  ],
  ['spec.anchors.configMap', 'true', (s) => s.anchors.configMap, true],
  [
    'spec.anchors.webhook',
    'https://anchors.example.com/in?a=b',
    (s) => s.anchors.webhook,
    'https://anchors.example.com/in?a=b',
  ],
  ['spec.enforcement.neverSuspend', 'acme', (s) => s.enforcement.neverSuspend, ['acme']],
  ['ENFORCEMENT_MODE', 'enforce', (s) => s.enforcement.mode, 'enforce'],
  [
    'ENFORCEMENT_RULES',
    'alerts.spend_threshold_reached=suspended',
    (s) => s.enforcement.rules,
    { 'alerts.spend_threshold_reached': 'suspended' },
  ],
  ['LOG_LEVEL', 'debug', (s) => s.log.level, 'debug'],
  ['LOG_FORMAT', 'text', (s) => s.log.format, 'text'],
  ['OTEL_EXPORTER_OTLP_ENDPOINT', 'http://c:4318/', (s) => s.otlp?.endpoint, 'http://c:4318'],
  ['OTEL_EXPORTER_OTLP_HEADERS', 'X-Key=a', (s) => s.otlp?.headers, { 'X-Key': 'a' }, COLLECTOR],
  ['OTEL_METRIC_EXPORT_INTERVAL', '5000', (s) => s.otlp?.intervalMs, 5000, COLLECTOR],
];

testEffects(EFFECTS, Object.fromEntries(settings([])));

test('an empty variable of a pod template counts as not set', () => {
  const empty = Object.fromEntries(variables(DESTINATIONS).map(([name]) => [name, '']));
  expect(revealed(settingsFrom(empty))).toStrictEqual(revealed(settingsFrom({})));
});

test('a bare install starts with the specified defaults', () => {
  expect(revealed(settingsFrom({}))).toMatchObject({
    identity: { region: 'default', clusterName: 'control-plane', tenantSource: 'cluster' },
    discovery: { reconcileIntervalMs: 30_000, offboardGraceMs: 3_600_000, watchNamespaces: [] },
    metering: {
      windowMs: 60_000,
      maxBackfillMs: 21_600_000,
      settlingDelayMs: 3_000,
      cpuMemoryBasis: 'usage',
      gpuResources: ['nvidia.com/gpu', 'amd.com/gpu'],
      capacityTypeLabel: 'meterfeed.io/capacity-type',
      unhealthyNodeTaints: ['node.kubernetes.io/not-ready', 'node.kubernetes.io/unreachable'],
      watchDeletions: true,
      excludeNamespaces: ['kube-system'],
    },
    tenantApi: { enabled: true, kubeconfigSecret: 'svc-kubeconfig', adminFallback: false },
    ledger: {
      dataDir: '/var/lib/vbilling-data',
      retentionMs: 604_800_000,
      durability: 'standby',
    },
    http: { host: '', port: 8080, apiTokens: [], ingestTokens: [] },
    enforcement: { mode: 'observe', rules: {} },
    billing: { destinations: [], defaultPlanCode: 'tenant-standard', currency: 'USD' },
    log: { level: 'info', format: 'json' },
  });
});

describe('a misspelt variable goes unnoticed', () => {
  test.each([
    ['COLECTION_INTERVAL', 'COLLECTION_INTERVAL'],
    ['BILLING_C_APIKEY', 'BILLING_C_API_KEY'],
    ['WATCH_NAMESPACE', 'WATCH_NAMESPACES'],
  ])('%s', (name, meant) => {
    const loaded = loadEnvironment({ [name]: 'x' }, DESTINATIONS);
    expect(loaded.kind === 'loaded' && loaded.warnings).toContain(
      `${name}: unknown variable, without effect; did you mean ${meant}?`,
    );
  });

  test('variables of the system and of Service links are left alone', () => {
    const system = {
      HOME: '/',
      PATH: '/bin',
      HOSTNAME: 'x',
      LAGO_SERVICE_HOST: '10.0.0.1',
      LAGO_PORT_3000_TCP_ADDR: '10.0.0.1',
      WEBHOOK_PORT: 'tcp://10.0.0.2:80',
      AWS_REGION: 'x',
      NODE_ENV: 'production',
    };
    const loaded = loadEnvironment(system, DESTINATIONS);
    expect(loaded.kind === 'loaded' && loaded.warnings.join()).not.toContain('unknown');
  });
});

test('a variable that is gone is set, and somebody counts on it', () => {
  expect(loadEnvironment({ DESTINATIONS_AGGREGATE: '1h' }, DESTINATIONS)).toStrictEqual({
    kind: 'invalid',
    problems: [
      'DESTINATIONS_AGGREGATE: removed: "1h"; delete it; make windows longer by COLLECTION_INTERVAL where a billing system takes fewer events a second than come',
    ],
  });
});

test('a variable that became a field is set, and nobody says which field it is', () => {
  const loaded = loadEnvironment({ MAX_OWN_NODES: '5', REGION: 'eu-1' }, DESTINATIONS);
  expect(loaded).toStrictEqual({
    kind: 'invalid',
    problems: [
      'MAX_OWN_NODES: removed: "5"; set spec.maxPrivateNodes of the MeteringPolicy, and delete the variable',
    ],
  });
});

test('risky defaults are not logged', () => {
  const loaded = loadEnvironment({}, DESTINATIONS);
  expect(loaded.kind === 'loaded' && loaded.warnings).toStrictEqual([
    'REGION: "default"; set one that no other control plane cluster has',
    'API_TOKEN: not set; anyone who reaches the HTTP API can read all usage',
  ]);
  const safe = loadEnvironment({ REGION: 'eu-1', API_TOKEN: 'a'.repeat(32) }, DESTINATIONS);
  expect(safe.kind === 'loaded' && safe.warnings).toStrictEqual([]);
});

test('somebody changes the settings in place', () => {
  const settings = settingsFrom({});
  expect(Object.isFrozen(settings)).toBe(true);
  expect(Object.isFrozen(settings.metering.gpuResources)).toBe(true);
});
