import type { Plural } from './schemas.ts';

/** A custom resource as a user writes it. */
export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: unknown;
}

const KINDS: Readonly<Record<Plural, string>> = {
  billingdestinations: 'BillingDestination',
  tenantoverrides: 'TenantOverride',
  meteringpolicies: 'MeteringPolicy',
  pricebooks: 'PriceBook',
};

/** A manifest of a kind; the only MeteringPolicy there may be is `default`. */
export function manifest(plural: Plural, spec: unknown, name?: string): Manifest {
  return {
    apiVersion: 'meterfeed.io/v1alpha1',
    kind: KINDS[plural],
    metadata: { name: name ?? (plural === 'meteringpolicies' ? 'default' : 'example') },
    spec,
  };
}

const signingKey = { name: 'billing', key: 'current' };

/** Valid specs that between them use every field. */
export const COMPLETE_SPECS: Readonly<Record<Plural, readonly object[]>> = {
  billingdestinations: [
    {
      type: 'webhook',
      suspend: true,
      startFrom: 'earliest',
      mode: 'live',
      planChange: 'period-end',
      aggregate: 'none',
      late: 'hold',
      metrics: { include: ['tenant_gpu_hours'], exclude: ['tenant_lb_hours'] },
      webhook: {
        url: 'https://billing.example.com/events?source=meterfeed',
        secretRefs: [signingKey, { name: 'billing', key: 'next' }],
        headers: [
          { name: 'Authorization', valueSecretRef: { name: 'billing', key: 'bearer' } },
          { name: 'X-Tenant', value: 'platform' },
        ],
      },
    },
    {
      type: 'lago',
      managePrices: false,
      lago: {
        url: 'http://lago.billing.svc:3000',
        apiKeySecretRef: { name: 'lago', key: 'api-key' },
        webhookSecretRefs: [{ name: 'lago', key: 'api-key' }],
        planCode: 'tenant-standard',
        currency: 'EUR',
      },
    },
    { type: 'noop' },
    {
      type: 'kafka',
      kafka: {
        brokers: ['kafka-0.example.com:9093', '[2001:db8::1]:9093'],
        topic: 'billing.usage',
        contentMode: 'binary',
        tls: true,
        caSecretRef: { name: 'kafka', key: 'ca.crt' },
        sasl: {
          mechanism: 'PLAIN',
          username: 'meterfeed',
          passwordSecretRef: { name: 'kafka', key: 'password' },
        },
      },
    },
    {
      type: 'stripe',
      stripe: {
        url: 'https://api.stripe.com',
        apiKeySecretRef: { name: 'stripe', key: 'api-key' },
        webhookSecretRefs: [{ name: 'alerts', key: 'stripe' }],
        splitMetersBy: ['sku', 'capacity_type'],
        autoSubscribe: true,
        cancelOnRemove: true,
        collectionMethod: 'send_invoice',
        daysUntilDue: 14,
        automaticTax: true,
        billingDay: 31,
        maxRequestsPerSecond: 50,
        meterEventStream: true,
        planCode: 'gold',
        currency: 'EUR',
        apiVersion: '2026-09-30.endive',
      },
    },
    {
      type: 'metronome',
      metronome: {
        url: 'https://api.metronome.com',
        apiTokenSecretRef: { name: 'metronome', key: 'api-token' },
        webhookSecretRefs: [{ name: 'metronome', key: 'api-token' }],
        rateCard: 'standard-usd',
        currency: 'EUR',
        stripeLink: {
          apiKeySecretRef: { name: 'stripe', key: 'api-key' },
          collectionMethod: 'send_invoice',
          url: 'https://api.stripe.com',
          apiVersion: '2026-09-30.endive',
        },
      },
    },
  ],
  tenantoverrides: [
    {
      match: { namespace: 'acme', name: 'prod' },
      tenant: 'acme',
      displayName: 'Acme Corporation',
      project: 'research',
      plan: 'enterprise',
      planChange: 'period-end',
      tenantClass: 'enterprise',
      billing: {
        address: {
          line1: 'Street 1',
          line2: 'Floor 2',
          city: 'Köln',
          state: 'NRW',
          postalCode: '50667',
          country: 'DE',
        },
        taxId: 'DE123456789',
        timeZone: 'Europe/Berlin',
        netTermsDays: 30,
      },
      exclude: false,
      enforcement: 'exempt',
      budget: {
        amount: '0.5',
        metric: 'tenant_gpu_hours',
        period: 'rolling',
        days: 30,
        thresholds: [50, 100],
        atLimit: 'suspend',
        grace: { amount: '0.25' },
      },
      metering: {
        cpuMemoryBasis: 'max',
        meterControlPlane: true,
        meterByNamespace: true,
        meterByQueue: true,
        podLifetime: 'scheduled',
        privateNodeBilling: 'usage',
        privateNodeTrust: 'provider',
        maxPrivateNodes: 5_000,
        privateNodeLabels: { 'karpenter.sh/capacity-type': 'reserved' },
        excludeNamespaces: ['kube-system', 'monitoring'],
        egressQuery: 'sum(increase(sent_bytes{cluster="{{vcluster}}"}[{{window}}]))',
        gpuUtilQuery: 'none',
        gpuCountQuery: 'none',
      },
    },
    {
      match: {
        selector: {
          matchLabels: { 'example.com/team': 'blue' },
          matchExpressions: [
            { key: 'tier', operator: 'In', values: ['gold', ''] },
            { key: 'legacy', operator: 'DoesNotExist' },
          ],
        },
      },
      exclude: true,
      budget: {
        amount: '500',
        currency: 'EUR',
        period: 'month',
        atLimit: 'suspend',
        grace: { time: '90m' },
      },
    },
  ],
  meteringpolicies: [
    {
      collectionInterval: '1m',
      reconcileInterval: '1s',
      maxBackfill: '34d',
      offboardGrace: '1h30m',
      settlingDelay: '2.5s',
      cpuMemoryBasis: 'requests',
      meterControlPlane: false,
      meterByNamespace: true,
      meterByQueue: true,
      gpuQuantity: 'devices',
      podLifetime: 'running',
      egressQuery: 'none',
      gpuUtilQuery: 'avg by (modelName) (util{n="{{namespace}}"})',
      gpuCountQuery: 'count by (modelName) (util{n="{{namespace}}"})',
      watchDeletions: true,
      logLevel: 'debug',
      gpuResources: ['nvidia.com/gpu', 'amd.com/cpx_nps4'],
      draGpuDrivers: ['gpu.nvidia.com'],
      unhealthyNodeTaints: ['example.com/broken', 'drained'],
      skuLabel: 'example.com/sku',
      capacityTypeLabel: 'example.com/capacity-type',
      dedicatedNodeLabel: 'example.com/dedicated-to=vc-%s',
      regionFromNode: true,
      zone: 'zone-a',
      defaultTenantClass: 'public',
      tenantSource: 'project',
      customMetrics: [{ code: 'llm_tokens', unit: 'tokens', dimensions: ['model'] }],
      privateNodeBilling: 'usage',
      privateNodeTrust: 'provider',
      privateNodeDowntimePercent: 5,
      maxPrivateNodes: 200,
      excludeNamespaces: ['kube-system', 'monitoring'],
      retention: '30d',
      defaultBudget: {
        amount: '500',
        currency: 'EUR',
        period: 'month',
        thresholds: [100, 80],
        atLimit: 'suspend',
        grace: { time: '24h' },
      },
      ingest: {
        unknownTenants: 'create',
        window: '30m',
        lateFor: '24h',
        entitlementAccessQuery: true,
        subjects: [{ subject: 'team-*', tenant: 'acme' }],
        cloudEvents: [
          {
            type: 'acme.completion',
            subject: "$.team['id']",
            subjectPrefix: 'team:',
            ignoreSubjects: ['probe'],
            tokens: {
              input: '$.usage.in',
              output: '$.usage.out',
              cacheRead: '$.usage.cached',
              cacheWrite: '$.usage.written',
              reasoning: '$.usage.thought',
              inputIncludesCached: false,
              outputIncludesReasoning: true,
              dimensions: { model: '$.model' },
            },
          },
          { preset: 'kong', tokens: { count: '$.tokens', kind: '$.type' } },
          {
            type: 'acme.image',
            metrics: [
              {
                metric: 'llm_tokens',
                value: '$.images[0].count',
                unit: 'tokens',
                dimensions: { model: '$.model' },
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
        export: {
          format: 'parquet',
          grain: 'hour',
          version: '1.2',
          bucket: {
            endpoint: 'https://s3.eu-central-1.amazonaws.com',
            region: 'eu-central-1',
            name: 'example-billing',
            prefix: 'meterfeed/',
            accessKeyIdSecretRef: { name: 'bucket', key: 'id' },
            secretAccessKeySecretRef: { name: 'bucket', key: 'secret' },
          },
        },
      },
      discovery: {
        namespaces: ['vcluster-acme'],
        platformCluster: 'control-plane-1',
        sources: ['vcluster', 'namespaces'],
        namespaceTenantKeys: ['capsule.clastix.io/tenant'],
        trustPlatformMetadata: true,
        trustWorkloadMetadata: true,
      },
      tenantAPI: {
        enabled: true,
        kubeconfigSecret: 'metering-kubeconfig',
        adminFallback: true,
        allowedHosts: ['apis.example.com', '10.20.0.0/16', '2001:db8::7'],
      },
      enforcement: {
        mode: 'enforce',
        rules: [{ event: 'invoice.payment_failed', state: 'warning' }],
        neverSuspend: ['acme'],
      },
      prometheus: {
        url: 'http://prometheus.monitoring.svc:9090',
        preset: 'vcluster-platform',
        basicAuth: {
          username: 'metering',
          passwordSecretRef: { name: 'prometheus', key: 'password' },
        },
        headers: [
          { name: 'X-Scope-OrgID', value: 'platform' },
          { name: 'Cookie', valueSecretRef: { name: 'prometheus', key: 'cookie' } },
        ],
      },
    },
    { focus: { export: { format: 'csv', grain: 'day', version: '1.4', directory: '/export' } } },
    {
      prometheus: {
        url: 'https://prometheus.example.com/tenants/platform',
        bearerTokenSecretRef: { name: 'prometheus', key: 'token' },
      },
    },
    {
      defaultBudget: {
        amount: '0.5',
        metric: 'tenant_gpu_hours',
        period: 'rolling',
        days: 7,
        atLimit: 'suspend',
        grace: { amount: '0.25' },
      },
    },
    {},
  ],
  pricebooks: [
    {
      currency: 'EUR',
      prices: [
        {
          name: 'h100-spot',
          metric: 'tenant_gpu_hours',
          match: { sku: 'h100', capacity_type: 'spot' },
          rates: [
            { from: '2026-01-01', amount: '1.25', per: 'thousand' },
            { from: '2026-12-01', withdrawn: true },
          ],
        },
        {
          name: 'egress',
          metric: 'tenant_network_egress_gb',
          rates: [
            {
              from: '2026-01-01',
              included: '100',
              graduated: [{ upTo: '1000', amount: '0.08' }, { amount: '0.05' }],
            },
            { from: '2027-01-01', volume: [{ upTo: '0.5', amount: '0.09' }, { amount: '0' }] },
          ],
        },
      ],
    },
  ],
};
