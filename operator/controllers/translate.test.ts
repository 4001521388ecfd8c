import { describe, expect, test } from 'vitest';
import type { DestinationDefaults } from '../settings/configurable-destination.ts';
import type {
  BillingDestinationSpec,
  MeteringPolicySpec,
  TenantOverrideSpec,
} from '../settings/custom-resources.generated.ts';
import type { SecretRead } from '../settings/spec-fields.ts';
import type { LagoSettings } from '../destinations/lago/settings.ts';
import type { WebhookSettings } from '../destinations/webhook/settings.ts';
import { Secret } from '../model/secret.ts';
import { secretNames, translateDestination } from './destination-settings.ts';
import {
  policySecretNames,
  translateFocusExport,
  translatePolicy,
  translateServer,
} from './policy-settings.ts';
import { translateOverride } from './tenant-override.ts';
import { COMPLETE_SPECS } from './testing/objects.ts';

const DEFAULTS: DestinationDefaults = {
  planCode: 'tenant-standard',
  currency: 'USD',
  clusterName: 'control-plane-1',
};
const ENVIRONMENT = { settlingDelayMs: 3_000, windowMs: 60_000, customMetrics: [] };

function secretOf(values: Readonly<Record<string, string>>): SecretRead {
  const entries = Object.entries(values).map(([key, text]) => [key, new Secret(text)] as const);
  return { kind: 'found', values: new Map(entries) };
}

const READS = new Map([
  [
    'billing',
    secretOf({ current: 'k1', next: 'k2', bearer: 'Bearer abc', broken: 'a\nb', blank: '' }),
  ],
  ['lago', secretOf({ 'api-key': 'lago-key' })],
  ['gone', { kind: 'missing' } as const],
]);

const webhookSpec = (webhook: object): BillingDestinationSpec => ({
  type: 'webhook',
  webhook: { url: 'https://b.example.com/', ...webhook },
});

const translate = (spec: BillingDestinationSpec) =>
  translateDestination('main', spec, READS, DEFAULTS);

/** Secrets compare equal in tests whatever they hold, so their texts are compared. */
function credentials(spec: BillingDestinationSpec | undefined): readonly string[] {
  const translation = spec && translate(spec);
  if (translation?.kind !== 'settings') throw new Error('not translated');
  const { type, options } = translation.settings;
  const held = {
    webhook: ({ secrets, headers }: WebhookSettings) => [...secrets, ...headers.values()],
    lago: ({ apiKey }: LagoSettings) => [apiKey],
  };
  const secrets =
    type === 'webhook'
      ? held.webhook(options as WebhookSettings)
      : held.lago(options as LagoSettings);
  return secrets.map((secret) => secret.reveal());
}

describe('a BillingDestination', () => {
  test('reaches the engine with every field, credentials included', () => {
    const [webhook, lago] = COMPLETE_SPECS.billingdestinations as BillingDestinationSpec[];
    expect(webhook && translate(webhook)).toEqual({
      kind: 'settings',
      settings: {
        name: 'main',
        type: 'webhook',
        suspend: true,
        startFrom: 'earliest',
        mode: 'live',
        planChange: 'period-end',
        late: 'hold',
        metrics: { include: ['tenant_gpu_hours'], exclude: ['tenant_lb_hours'] },
        options: {
          url: 'https://billing.example.com/events?source=meterfeed',
          secrets: [new Secret('k1'), new Secret('k2')],
          headers: new Map([
            ['Authorization', new Secret('Bearer abc')],
            ['X-Tenant', new Secret('platform')],
          ]),
          source: 'control-plane-1',
        },
      },
    });
    expect(credentials(webhook)).toEqual(['k1', 'k2', 'Bearer abc', 'platform']);
    expect(credentials(lago)).toEqual(['lago-key']);
    expect(lago && translate(lago)).toMatchObject({
      settings: {
        options: {
          url: 'http://lago.billing.svc:3000',
          planCode: 'tenant-standard',
          currency: 'EUR',
        },
      },
    });
  });

  test('follows the environment where it says nothing', () => {
    const lago = {
      url: 'https://lago.example.com/',
      apiKeySecretRef: { name: 'lago', key: 'api-key' },
    };
    expect(translate({ type: 'lago', lago })).toMatchObject({
      settings: {
        suspend: false,
        startFrom: 'now',
        options: { url: 'https://lago.example.com', planCode: 'tenant-standard', currency: 'USD' },
      },
    });
  });

  test('names each Secret that it needs once', () => {
    const [webhook, lago, noop] = COMPLETE_SPECS.billingdestinations as BillingDestinationSpec[];
    expect([webhook, lago, noop].map((spec) => spec && secretNames(spec))).toEqual([
      ['billing'],
      ['lago'],
      [],
    ]);
  });

  const key = (name: string, of = 'billing') => ({ name: of, key: name });
  const auth = (name: string) => ({ headers: [{ name: 'X-A', valueSecretRef: key(name) }] });
  test.each([
    {
      accident: 'a Secret that does not exist',
      spec: webhookSpec({ secretRefs: [key('current', 'gone')] }),
      reason: 'SecretNotFound',
      message:
        'spec.webhook.secretRefs[0]: no such Secret: "gone"; create it in the namespace of the operator',
    },
    {
      accident: 'a Secret without the key',
      spec: webhookSpec({ secretRefs: [key('current'), key('typo')] }),
      reason: 'SecretKeyNotFound',
      message: 'spec.webhook.secretRefs[1]: no such key: "typo"; add the key to Secret "billing"',
    },
    {
      accident: 'an empty credential, which would sign with nothing',
      spec: webhookSpec({ secretRefs: [key('blank')] }),
      reason: 'InvalidSecret',
      message:
        'spec.webhook.secretRefs[0]: not a usable credential: key "blank" of Secret "billing"; use printable characters without spaces',
    },
    {
      accident: 'a header value with a line break',
      spec: webhookSpec(auth('broken')),
      reason: 'InvalidSecret',
      message:
        'spec.webhook.headers[0].valueSecretRef: not a usable credential: key "broken" of Secret "billing"; use printable ASCII characters on one line',
    },
    {
      accident: 'an address that the schema of another release let through',
      spec: webhookSpec({ url: 'ftp://b.example.com/' }),
      reason: 'InvalidSpec',
      message:
        'spec.webhook.url: not an http or https URL: "ftp://b.example.com/"; write an absolute http or https URL, such as https://billing.example.com',
    },
    {
      accident: 'a type without its block',
      spec: { type: 'lago' } as const,
      reason: 'InvalidSpec',
      message: 'spec.lago: missing; it is required by type lago',
    },
    {
      accident: 'prices that nobody sets any more',
      spec: { type: 'noop', managePrices: true } as const,
      reason: 'InvalidSpec',
      message:
        'spec.managePrices: removed: "true"; set prices at the billing system and delete this field',
    },
    {
      accident: 'hours that nobody adds up any more',
      spec: { type: 'noop', aggregate: '1h' } as const,
      reason: 'InvalidSpec',
      message:
        'spec.aggregate: removed: "1h"; make windows longer with COLLECTION_INTERVAL if the rate limit is low, and delete this field',
    },
    {
      accident: 'late usage on a next invoice, where there are none',
      spec: { ...webhookSpec({}), late: 'next' } as const,
      reason: 'InvalidSpec',
      message:
        'spec.late: webhook cannot bill late usage that way: late: "next"; use one of send, hold',
    },
  ])('$accident is reported, not used', ({ spec, reason, message }) => {
    expect(translate(spec)).toEqual({ kind: 'invalid', reason, message });
  });

  test('never quotes a credential out of an address', () => {
    const answer = translate(webhookSpec({ url: 'https://me:hunter2@b.example.com/?key=hunter3' }));
    expect(answer.kind).toBe('invalid');
    expect(JSON.stringify(answer)).not.toMatch(/hunter/);
  });
});

describe('a TenantOverride', () => {
  test('reaches the engine with every field', () => {
    const [named, selecting] = COMPLETE_SPECS.tenantoverrides as TenantOverrideSpec[];
    const { match: _, enforcement: __, budget: ___, ...overridden } = named ?? { match: {} };
    expect(named && translateOverride('acme', 1_000, named)).toEqual({
      kind: 'settings',
      settings: {
        name: 'acme',
        createdAt: 1_000,
        match: { kind: 'cluster', namespace: 'acme', name: 'prod' },
        ...overridden,
        budget: {
          counts: { kind: 'metric', metric: 'tenant_gpu_hours' },
          amount: 500_000_000n,
          period: { kind: 'rolling', days: 30 },
          thresholds: [50, 100],
          atLimit: 'suspend',
          grace: { kind: 'amount', amount: 250_000_000n },
        },
        enforcementExempt: true,
      },
    });
    expect(selecting && translateOverride('blue', 2_000, selecting)).toMatchObject({
      settings: {
        exclude: true,
        match: {
          kind: 'labels',
          matchLabels: { 'example.com/team': 'blue' },
          matchExpressions: [
            { key: 'tier', operator: 'In', values: ['gold', ''] },
            { key: 'legacy', operator: 'DoesNotExist', values: [] },
          ],
        },
      },
    });
  });

  test.each([
    {},
    { selector: {} },
    { namespace: 'acme' },
    { namespace: 'a', name: 'b', selector: {} },
  ])('never matches every tenant by saying nothing: %o', (match) => {
    expect(translateOverride('all', 0, { match, exclude: true })).toMatchObject({
      kind: 'invalid',
    });
  });
});

test('a time zone that nobody knows is reported, not used', () => {
  const match = { namespace: 'acme', name: 'prod' };
  const zoned = (timeZone: string) =>
    translateOverride('acme', 0, { match, billing: { timeZone } });
  expect(zoned('Europe/Berlin')).toMatchObject({ kind: 'settings' });
  expect(zoned('Europe/Nowhere')).toMatchObject({
    kind: 'invalid',
    message: 'spec.billing.timeZone: unknown: "Europe/Nowhere"; give one such as Europe/Berlin',
  });
});

test('an override may exempt tenant clusters, make an exception from that, or say nothing of it', () => {
  const match = { namespace: 'acme', name: 'prod' };
  const exempt = (spec: object) => {
    const outcome = translateOverride('acme', 0, { match, ...spec });
    return outcome.kind === 'settings' ? outcome.settings.enforcementExempt : outcome.kind;
  };
  expect(exempt({ enforcement: 'exempt' })).toBe(true);
  expect(exempt({ enforcement: 'enforced' })).toBe(false);
  expect(exempt({ plan: 'gold' })).toBeUndefined();
});

test.each([
  [{ ownNodeTrust: 'provider' as const }, 'ownNodeTrust: removed: "provider"'],
  [{ maxOwnNodes: 7 }, 'maxOwnNodes: removed: "7"'],
  [{ ownNodeLabels: { spot: 'a' } }, 'ownNodeLabels: removed: "{\\"spot\\":\\"a\\"}"'],
])('an override with %o bills as if it were not there', (metering, message) => {
  const match = { namespace: 'acme', name: 'prod' };
  expect(translateOverride('acme', 0, { match, metering })).toMatchObject({
    kind: 'invalid',
    message: expect.stringContaining(`spec.metering.${message}`),
  });
});

test('a query that a tenant could break out of is refused, in an override as in the policy', () => {
  const match = { namespace: 'acme', name: 'prod' };
  const egressQuery = 'sum(x{n={{namespace}}})';
  const message = 'egressQuery: placeholder outside a string: "{{namespace}}"; write "…" around it';
  expect(translateOverride('acme', 0, { match, metering: { egressQuery } })).toMatchObject({
    kind: 'invalid',
    message: `spec.metering.${message}`,
  });
  expect(translatePolicy({ egressQuery }, ENVIRONMENT)).toMatchObject({
    kind: 'invalid',
    message: `spec.${message}`,
  });
});

describe('the MeteringPolicy', () => {
  test('reaches the engine with every field', () => {
    const [complete] = COMPLETE_SPECS.meteringpolicies as MeteringPolicySpec[];
    expect(complete && translatePolicy(complete, ENVIRONMENT)).toEqual({
      kind: 'settings',
      settings: {
        identity: {
          zone: 'zone-a',
          defaultTenantClass: 'public',
          tenantSource: 'project',
          regionFromNode: true,
        },
        discovery: {
          reconcileIntervalMs: 1_000,
          offboardGraceMs: 5_400_000,
          watchNamespaces: ['vcluster-acme'],
          platformCluster: 'control-plane-1',
          sources: ['vcluster', 'namespaces'],
          namespaceTenantKeys: ['capsule.clastix.io/tenant'],
          trustPlatformMetadata: true,
          trustWorkloadMetadata: true,
        },
        tenantApi: {
          enabled: true,
          kubeconfigSecret: 'metering-kubeconfig',
          adminFallback: true,
          allowedHosts: ['apis.example.com', '10.20.0.0/16', '2001:db8::7'],
        },
        prometheus: { preset: 'vcluster-platform' },
        ledger: { retentionMs: 30 * 86_400_000 },
        defaultBudget: {
          counts: { kind: 'money', currency: 'EUR' },
          amount: 500n * 10n ** 21n,
          period: { kind: 'month' },
          thresholds: [80, 100],
          atLimit: 'suspend',
          grace: { kind: 'time', ms: 86_400_000 },
        },
        ingest: {
          unknownTenants: 'create',
          windowMs: 1_800_000,
          lateForMs: 86_400_000,
          entitlementAccessQuery: true,
          subjects: [{ subject: 'team-*', tenant: 'acme' }],
          cloudEvents: [
            {
              type: 'acme.completion',
              subject: ['team', 'id'],
              subjectPrefix: 'team:',
              ignoredSubjects: ['probe'],
              tokens: {
                input: ['usage', 'in'],
                output: ['usage', 'out'],
                cacheRead: ['usage', 'cached'],
                cacheWrite: ['usage', 'written'],
                reasoning: ['usage', 'thought'],
                inputIncludesCached: false,
                outputIncludesReasoning: true,
                dimensions: { model: ['model'] },
              },
              metrics: [],
            },
            {
              type: 'kong.llm_request',
              subjectPrefix: 'consumer:',
              ignoredSubjects: [],
              tokens: {
                count: ['tokens'],
                kind: ['type'],
                inputIncludesCached: false,
                outputIncludesReasoning: false,
                dimensions: {},
              },
              metrics: [],
            },
            {
              type: 'acme.image',
              ignoredSubjects: [],
              metrics: [
                {
                  metric: 'llm_tokens',
                  value: ['images', 0, 'count'],
                  unit: 'tokens',
                  dimensions: { model: ['model'] },
                },
              ],
            },
          ],
        },
        portal: {
          name: 'Example Cloud',
          logo: 'data:image/svg+xml;base64,PHN2Zy8+',
          colors: { light: '#1f5fbf', dark: '#7fb2ff' },
          frameAncestors: [
            'https://console.example.com',
            'https://*.example.com:8443',
            'http://localhost:3000',
          ],
        },
        anchors: { configMap: true, webhook: 'https://anchors.example.com/in' },
        focus: {
          provider: 'Example Cloud',
          publisher: 'Example Software',
          invoiceIssuer: 'Reseller Ltd',
          hostProvider: 'Metal Inc',
          services: [{ metric: 'tokens_used', name: 'Models', subcategory: 'Generative AI' }],
          downtime: true,
        },
        enforcement: {
          mode: 'enforce',
          rules: new Map([['invoice.payment_failed', 'warning']]),
          neverSuspend: ['acme'],
        },
        log: { level: 'debug' },
        metering: {
          windowMs: 60_000,
          maxBackfillMs: 34 * 86_400_000,
          settlingDelayMs: 2_500,
          cpuMemoryBasis: 'requests',
          meterControlPlane: false,
          meterByNamespace: true,
          meterByQueue: true,
          gpuQuantity: 'devices',
          podLifetime: 'running',
          privateNodeBilling: 'usage',
          privateNodeTrust: 'provider',
          privateNodeDowntimePercent: 5,
          maxPrivateNodes: 200,
          excludeNamespaces: ['kube-system', 'monitoring'],
          egressQuery: 'none',
          gpuUtilQuery: 'avg by (modelName) (util{n="{{namespace}}"})',
          gpuCountQuery: 'count by (modelName) (util{n="{{namespace}}"})',
          watchDeletions: true,
          gpuResources: ['nvidia.com/gpu', 'amd.com/cpx_nps4'],
          draGpuDrivers: ['gpu.nvidia.com'],
          unhealthyNodeTaints: ['example.com/broken', 'drained'],
          skuLabel: 'example.com/sku',
          capacityTypeLabel: 'example.com/capacity-type',
          dedicatedNodeLabel: 'example.com/dedicated-to=vc-%s',
          customMetrics: [{ code: 'llm_tokens', unit: 'tokens', dimensions: ['model'] }],
        },
      },
    });
  });

  test('an empty one leaves everything to the environment', () => {
    expect(translatePolicy({}, ENVIRONMENT)).toEqual({
      kind: 'settings',
      settings: {
        identity: {},
        discovery: {},
        tenantApi: {},
        prometheus: {},
        ledger: {},
        anchors: {},
        ingest: {},
        enforcement: {},
        log: {},
        metering: {},
      },
    });
  });

  test.each([
    [{ collectionInterval: '7m' }, 'spec.collectionInterval: does not divide an hour'],
    [{ maxBackfill: '35d' }, 'spec.maxBackfill: too long: "35d"; must be between 0s and 34d'],
    [{ gpuResources: ['gpu'] }, 'spec.gpuResources: not an extended resource: "gpu"'],
    [{ unhealthyNodeTaints: ['a=b'] }, 'spec.unhealthyNodeTaints: not a taint key: "a=b"'],
    [{ draGpuDrivers: ['GPU'] }, 'spec.draGpuDrivers: not a driver name: "GPU"'],
    [{ dedicatedNodeLabel: 'a=b' }, 'spec.dedicatedNodeLabel: must contain %s once: "a=b"'],
    [
      { ownNodeTrust: 'provider' as const },
      'spec.ownNodeTrust: removed: "provider"; set spec.privateNodeTrust and delete this field',
    ],
    [{ maxOwnNodes: 0 }, 'spec.maxOwnNodes: removed: "0"; set spec.maxPrivateNodes'],
    [
      { ownNodeDowntimePercent: 5 },
      'spec.ownNodeDowntimePercent: removed: "5"; set spec.privateNodeDowntimePercent',
    ],
    [{ offboardGrace: 'soon' }, 'spec.offboardGrace: not a duration: "soon"'],
    [{ retention: '99999d' }, 'spec.retention: too long: "99999d"'],
    [
      { tenantAPI: { allowedHosts: ['10.0.0.0/99'] } },
      'spec.tenantAPI.allowedHosts: not a CIDR: "10.0.0.0/99"',
    ],
    [
      { customMetrics: [{ code: 'tenant_gpu_hours', unit: 'x' }] },
      'spec.customMetrics: a built-in metric: "tenant_gpu_hours"',
    ],
  ])('%o is reported, not used', (spec, message) => {
    expect(translatePolicy(spec, ENVIRONMENT)).toMatchObject({
      kind: 'invalid',
      reason: 'InvalidSpec',
      message: expect.stringContaining(message),
    });
  });

  test('windows that would close after the next one are refused, whichever layer says so', () => {
    const environment = { ...ENVIRONMENT, settlingDelayMs: 20_000 };
    expect(translatePolicy({ collectionInterval: '10s' }, environment)).toMatchObject({
      kind: 'invalid',
      message: expect.stringContaining('spec.settlingDelay: not shorter than the window'),
    });
    expect(translatePolicy({ collectionInterval: '30s' }, environment).kind).toBe('settings');
  });
});

describe('the Prometheus server of a MeteringPolicy', () => {
  const password = { name: 'billing', key: 'current' };
  const url = 'https://prometheus.example.com/';
  const translated = (prometheus: MeteringPolicySpec['prometheus']) => {
    const outcome = translateServer(prometheus, READS);
    if (outcome.kind !== 'server' || outcome.server === undefined) return outcome;
    const { headers, bearerToken, basicAuth } = outcome.server;
    return {
      url: outcome.server.url,
      headers: [...headers].map(([name, value]) => `${name}: ${value.reveal()}`),
      bearerToken: bearerToken?.reveal(),
      basicAuth: basicAuth?.reveal(),
    };
  };

  test('has its credentials out of Secrets', () => {
    const basicAuth = { username: 'meter', passwordSecretRef: password };
    const headers = [
      { name: 'X-Scope-OrgID', value: 'platform' },
      { name: 'Authorization', valueSecretRef: { name: 'billing', key: 'bearer' } },
    ];
    expect(translated({ url, basicAuth, headers })).toEqual({
      url: 'https://prometheus.example.com',
      headers: ['X-Scope-OrgID: platform', 'Authorization: Bearer abc'],
      basicAuth: 'meter:k1',
    });
    expect(translated({ url, bearerTokenSecretRef: password })).toMatchObject({
      bearerToken: 'k1',
    });
    expect(translated({ preset: 'vcluster-platform' })).toEqual({ kind: 'server' });
  });

  test('is not queried while a credential is missing', () => {
    const message =
      'spec.prometheus.bearerTokenSecretRef: no such key: "other"; add the key to Secret "billing"';
    const bearerTokenSecretRef = { name: 'billing', key: 'other' };
    expect(translated({ url, bearerTokenSecretRef })).toMatchObject({
      kind: 'incomplete',
      server: { credentialProblem: message },
      why: { reason: 'SecretKeyNotFound', message },
    });
  });

  test('never is the metadata service, nor has it credentials in its address', () => {
    const what = 'spec.prometheus.url: a link-local or cloud metadata address';
    expect(translated({ url: 'http://169.254.169.254' })).toMatchObject({
      kind: 'invalid',
      message: expect.stringContaining(what),
    });
    expect(translated({ url: 'http://me:pw@prometheus' })).toMatchObject({
      message:
        'spec.prometheus.url: a URL with credentials: "http://***@prometheus"; give them in a header or key variable instead',
    });
  });

  test('names each Secret once', () => {
    const [complete] = COMPLETE_SPECS.meteringpolicies as MeteringPolicySpec[];
    expect(complete && policySecretNames(complete)).toEqual(['bucket', 'prometheus']);
  });
});

describe('where FOCUS files are written', () => {
  const bucket = {
    endpoint: 'https://s3.example.com/',
    region: 'eu-1',
    name: 'costs',
    accessKeyIdSecretRef: { name: 'billing', key: 'current' },
    secretAccessKeySecretRef: { name: 'billing', key: 'next' },
  };
  const translated = (written: NonNullable<MeteringPolicySpec['focus']>['export']) =>
    translateFocusExport({ export: written }, READS);

  test('is a bucket with credentials out of Secrets, and Parquet by the hour by default', () => {
    const outcome = translated({ bucket });
    expect(outcome).toMatchObject({
      settings: {
        format: 'parquet',
        grain: 'hour',
        version: '1.2',
        target: { kind: 'bucket', endpoint: 'https://s3.example.com', prefix: '' },
      },
    });
    if (outcome.kind !== 'settings' || outcome.settings?.target.kind !== 'bucket') {
      throw new Error(outcome.kind);
    }
    const { accessKeyId, secretAccessKey } = outcome.settings.target;
    expect([accessKeyId.reveal(), secretAccessKey.reveal()]).toEqual(['k1', 'k2']);
    expect(JSON.stringify(outcome)).not.toMatch(/k1|k2/);
  });

  test('is a directory, or nowhere', () => {
    const written = { format: 'csv', grain: 'day', version: '1.4' } as const;
    expect(translated({ directory: '/export', ...written })).toMatchObject({
      settings: { ...written, target: { kind: 'directory', path: '/export' } },
    });
    expect(translated(undefined)).toEqual({ kind: 'settings', settings: undefined });
  });

  test('says which credential is missing, and leaves the other settings in force', () => {
    const secretAccessKeySecretRef = { name: 'gone', key: 'secret' };
    expect(translated({ bucket: { ...bucket, secretAccessKeySecretRef } })).toMatchObject({
      kind: 'settings',
      settings: {
        target: {
          kind: 'unusable',
          problem: expect.stringContaining('spec.focus.export.bucket.secretAccessKeySecretRef'),
        },
      },
    });
  });

  test('is never the metadata service', () => {
    expect(translated({ bucket: { ...bucket, endpoint: 'http://169.254.169.254' } })).toMatchObject(
      {
        kind: 'invalid',
        message: expect.stringContaining('spec.focus.export.bucket.endpoint: a link-local'),
      },
    );
  });
});

test('a colour of the portal that nobody can read is refused with what it lacks', () => {
  const message = (colors: object) => translatePolicy({ portal: { colors } }, ENVIRONMENT);
  expect(message({ light: '#ffee00' })).toMatchObject({
    kind: 'invalid',
    message:
      'spec.portal.colors.light: hard to read on a light background, contrast 1.1:1: "#ffee00"; choose a darker one, of 4.5:1',
  });
  expect(message({ light: '#1f5fbf', dark: '#1f5fbf' })).toMatchObject({
    kind: 'invalid',
    message: expect.stringContaining('spec.portal.colors.dark: hard to read on a dark background'),
  });
});

test('a FOCUS service that two subcategories share, or that FOCUS does not list, is refused by name', () => {
  const message = (name: string, subcategory: string) =>
    translatePolicy(
      { focus: { services: [{ metric: 'm', name, subcategory }] } } as never,
      ENVIRONMENT,
    );
  expect(message('Private nodes', 'Containers')).toMatchObject({
    kind: 'invalid',
    message:
      'spec.focus.services: one name for two subcategories: "Private nodes"; use a name for each',
  });
  expect(message('Models', 'generative ai')).toMatchObject({
    message: expect.stringContaining('not a ServiceSubcategory of FOCUS 1.2: "generative ai"'),
  });
  expect(message('Other services', 'Generative AI')).toMatchObject({ kind: 'invalid' });
  expect(message('Private nodes', 'Virtual Machines')).toMatchObject({ kind: 'settings' });
});
