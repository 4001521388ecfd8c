import { describe, expect, test } from 'vitest';
import { type Environment, loadEnvironment } from './load-environment.ts';
import { Secret } from '../model/secret.ts';
import type { Settings } from './settings.ts';
import { variables } from './variables/variables.ts';
import { DESTINATIONS } from '../destinations/registry.ts';

function settingsOf(environment: Environment): Settings {
  const loaded = loadEnvironment(environment, DESTINATIONS);
  if (loaded.kind === 'invalid') throw new Error(loaded.problems.join('\n'));
  return loaded.settings;
}

/** Secrets as plain text, so that expectations can be written. */
function revealed(value: unknown): unknown {
  if (value instanceof Secret) return value.reveal();
  if (value instanceof Map) {
    return Object.fromEntries([...value].map(([key, inner]) => [key, revealed(inner)]));
  }
  if (Array.isArray(value)) return value.map(revealed);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, revealed(inner)]));
}

type Effect = readonly [
  name: string,
  text: string,
  select: (settings: Settings) => unknown,
  expected: unknown,
  others?: Environment,
];

const LAGO = { ADAPTERS: 'billing_c', BILLING_C_API_KEY: 'k' };
const STRIPE = { ADAPTERS: 'billing_a', BILLING_A_API_KEY: 'k' };
const STRIPE_LINK = {
  url: 'https://api.billing-a.invalid',
  apiKey: 's',
  apiVersion: '2026-09-30.endive',
};
const METRONOME = { ADAPTERS: 'billing_b', BILLING_B_API_TOKEN: 'k' };
const WEBHOOK = { ADAPTERS: 'webhook', WEBHOOK_URL: 'https://hooks.example.com/in' };

function destination(settings: Settings) {
  return settings.billing.destinations[0];
}

function block(name: 'lago' | 'stripe' | 'metronome' | 'webhook', field: string) {
  return (settings: Settings): unknown => {
    const { type, options: fields } = destination(settings) ?? {};
    if (type !== name) return undefined;
    return typeof fields === 'object' && fields !== null
      ? Object.entries(fields).find(([key]) => key === field)?.[1]
      : undefined;
  };
}

const EFFECTS: readonly Effect[] = [
  ['ADAPTERS', 'noop', (s) => destination(s)?.type, 'noop'],
  ['ADAPTER', 'noop', (s) => destination(s)?.type, 'noop'],
  ['SPOT_DISCOUNT_PERCENT', '70', (s) => s.billing.destinations, []],
  ['DEFAULT_PLAN_CODE', 'gold', (s) => s.billing.defaultPlanCode, 'gold'],
  ['DEFAULT_PLAN_CODE', 'gold', block('lago', 'planCode'), 'gold', LAGO],
  ['DEFAULT_PLAN_CODE', 'gold', block('stripe', 'planCode'), 'gold', STRIPE],
  ['BILLING_CURRENCY', 'eur', (s) => s.billing.currency, 'EUR'],
  ['BILLING_CURRENCY', 'EUR', block('lago', 'currency'), 'EUR', LAGO],
  [
    'WEBHOOK_URL',
    'http://10.0.0.8/x?y=1',
    block('webhook', 'url'),
    'http://10.0.0.8/x?y=1',
    WEBHOOK,
  ],
  ['WEBHOOK_SECRET', 'new,old', block('webhook', 'secrets'), ['new', 'old'], WEBHOOK],
  [
    'WEBHOOK_HEADERS',
    'X-Key=a=b, X-B=c d',
    block('webhook', 'headers'),
    { 'X-Key': 'a=b', 'X-B': 'c d' },
    WEBHOOK,
  ],
  [
    'BILLING_C_API_URL',
    'https://lago.example.com/',
    block('lago', 'url'),
    'https://lago.example.com',
    LAGO,
  ],
  ['BILLING_C_API_KEY', ' key\n', block('lago', 'apiKey'), 'key', { ADAPTERS: 'lago' }],
  ['BILLING_C_WEBHOOK_SECRET', 'x', (s) => s.enforcement.webhookSecrets['lago'], ['x']],
  [
    'BILLING_A_API_KEY',
    'sk_test_1',
    block('stripe', 'apiKey'),
    'sk_test_1',
    { ADAPTERS: 'stripe' },
  ],
  ['BILLING_A_WEBHOOK_SECRET', 'x,y', (s) => s.enforcement.webhookSecrets['stripe'], ['x', 'y']],
  [
    'BILLING_A_SPLIT_METERS_BY',
    'sku,capacity_type',
    block('stripe', 'splitMetersBy'),
    ['sku', 'capacity_type'],
    STRIPE,
  ],
  ['BILLING_A_AUTO_SUBSCRIBE', 'yes', block('stripe', 'autoSubscribe'), true, STRIPE],
  ['BILLING_A_CANCEL_ON_REMOVE', '1', block('stripe', 'cancelOnRemove'), true, STRIPE],
  ['BILLING_A_MAX_RPS', '50', block('stripe', 'maxRequestsPerSecond'), 50, STRIPE],
  [
    'BILLING_A_API_VERSION',
    '2027-01-31.fir',
    block('stripe', 'apiVersion'),
    '2027-01-31.fir',
    STRIPE,
  ],
  [
    'BILLING_A_API_BASE',
    'http://127.0.0.1:9',
    block('stripe', 'url'),
    'http://127.0.0.1:9',
    STRIPE,
  ],
  ['BILLING_B_API_TOKEN', 't', block('metronome', 'apiToken'), 't', { ADAPTERS: 'metronome' }],
  ['BILLING_B_WEBHOOK_SECRET', 'x', (s) => s.enforcement.webhookSecrets['metronome'], ['x']],
  ['BILLING_B_RATE_CARD', 'standard', block('metronome', 'rateCard'), 'standard', METRONOME],
  [
    'BILLING_B_STRIPE_LINK',
    'true',
    block('metronome', 'stripeLink'),
    { ...STRIPE_LINK, collectionMethod: 'charge_automatically' },
    { ...METRONOME, STRIPE_API_KEY: 's' },
  ],
  [
    'BILLING_B_STRIPE_COLLECTION_METHOD',
    'send_invoice',
    block('metronome', 'stripeLink'),
    { ...STRIPE_LINK, collectionMethod: 'send_invoice' },
    { ...METRONOME, STRIPE_API_KEY: 's', METRONOME_STRIPE_LINK: 'true' },
  ],
  [
    'BILLING_B_API_BASE',
    'https://m.example.com',
    block('metronome', 'url'),
    'https://m.example.com',
    METRONOME,
  ],
  ['REGION', 'eu-1', (s) => s.identity.region, 'eu-1'],
  ['CLUSTER_NAME', 'cp-1', (s) => s.identity.clusterName, 'cp-1'],
  ['CLUSTER_NAME', 'cp-1', block('webhook', 'source'), 'cp-1', WEBHOOK],
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
  ['PLATFORM_CLUSTER', 'c1', (s) => s.discovery.platformCluster, 'c1'],
  ['TRUST_PLATFORM_METADATA', 'TRUE', (s) => s.discovery.trustPlatformMetadata, true],
  ['TENANT_API', 'no', (s) => s.tenantApi.enabled, false],
  ['TENANT_KUBECONFIG_SECRET', 'reader', (s) => s.tenantApi.kubeconfigSecret, 'reader'],
  ['TENANT_ADMIN_FALLBACK', 'true', (s) => s.tenantApi.adminFallback, true],
  [
    'TENANT_API_ALLOWED_HOSTS',
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
  ['SETTLING_DELAY', '500ms', (s) => s.metering.settlingDelayMs, 500],
  ['MAX_BACKFILL', '0s', (s) => s.metering.maxBackfillMs, 0],
  ['CPU_MEMORY_BASIS', 'max', (s) => s.metering.cpuMemoryBasis, 'max'],
  ['POD_LIFETIME', 'scheduled', (s) => s.metering.podLifetime, 'scheduled'],
  ['METER_CONTROL_PLANE', 'true', (s) => s.metering.meterControlPlane, true],
  ['METER_BY_NAMESPACE', 'true', (s) => s.metering.meterByNamespace, true],
  ['GPU_QUANTITY', 'devices', (s) => s.metering.gpuQuantity, 'devices'],
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
  ['RETENTION', '30d', (s) => s.ledger.retentionMs, 2_592_000_000],
  ['LISTEN_ADDR', '[::1]:9090', (s) => [s.http.host, s.http.port], ['::1', 9090]],
  [
    'API_TOKEN',
    'new,old',
    (s) => [s.http.apiTokens, s.http.ingestTokens],
    [
      ['new', 'old'],
      ['new', 'old'],
    ],
  ],
  ['INGEST_TOKEN', 'push', (s) => [s.http.apiTokens, s.http.ingestTokens], [[], ['push']]],
  ['ENFORCEMENT_MODE', 'enforce', (s) => s.enforcement.mode, 'enforce'],
  [
    'ENFORCEMENT_RULES',
    'alerts.spend_threshold_reached=suspended',
    (s) => s.enforcement.rules,
    { 'alerts.spend_threshold_reached': 'suspended' },
  ],
  ['LOG_LEVEL', 'debug', (s) => s.log.level, 'debug'],
  ['LOG_FORMAT', 'text', (s) => s.log.format, 'text'],
];

describe('a variable that is set and has no effect', () => {
  for (const [name, text, select, expected, others = {}] of EFFECTS) {
    test(`${name}=${text}`, () => {
      expect(revealed(select(settingsOf({ ...others, [name]: text })))).toStrictEqual(expected);
      if (name === 'SPOT_DISCOUNT_PERCENT') return;
      const without = loadEnvironment({ ...others, [name]: undefined }, DESTINATIONS);
      const before = without.kind === 'invalid' ? 'refused' : revealed(select(without.settings));
      expect(before).not.toStrictEqual(expected);
    });
  }

  test('the table misses no variable of the schema', () => {
    const covered = new Set(EFFECTS.map(([name]) => name));
    expect(
      variables(DESTINATIONS)
        .map(([name]) => name)
        .filter((name) => !covered.has(name)),
    ).toStrictEqual([]);
  });

  test('the second spelling of a destination’s variables means the same', () => {
    for (const [name, text, select, expected, others = {}] of EFFECTS) {
      const variable = variables(DESTINATIONS).find(([known]) => known === name)?.[1];
      for (const alias of variable?.aliases ?? []) {
        const { [name]: _dropped, ...rest } = others;
        expect(revealed(select(settingsOf({ ...rest, [alias]: text })))).toStrictEqual(expected);
      }
    }
  });
});

test('an empty variable of a pod template counts as not set', () => {
  const empty = Object.fromEntries(variables(DESTINATIONS).map(([name]) => [name, '']));
  expect(revealed(settingsOf(empty))).toStrictEqual(revealed(settingsOf({})));
});

test('a bare install starts with the specified defaults', () => {
  expect(revealed(settingsOf({}))).toMatchObject({
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
    ledger: { dataDir: '/var/lib/vbilling-data', retentionMs: 604_800_000 },
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

test('risky defaults are not said aloud', () => {
  const loaded = loadEnvironment({}, DESTINATIONS);
  expect(loaded.kind === 'loaded' && loaded.warnings).toStrictEqual([
    'REGION: "default"; set one that no other control plane cluster has',
    'API_TOKEN: not set; whoever reaches the HTTP API can read all usage',
  ]);
  const safe = loadEnvironment({ REGION: 'eu-1', API_TOKEN: 'a'.repeat(32) }, DESTINATIONS);
  expect(safe.kind === 'loaded' && safe.warnings).toStrictEqual([]);
});

test('somebody changes the settings in place', () => {
  const settings = settingsOf({});
  expect(Object.isFrozen(settings)).toBe(true);
  expect(Object.isFrozen(settings.metering.gpuResources)).toBe(true);
});
