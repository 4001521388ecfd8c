import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { useTestCluster } from '../../e2e/control-plane/test-cluster.ts';
import { installCustomResources } from './testing/install.ts';
import { COMPLETE_SPECS, type Manifest, manifest } from './testing/objects.ts';
import { CRD_DIRECTORY, PLURALS, type Plural, places, schemaOf } from './testing/schemas.ts';

const cluster = useTestCluster();

beforeAll(async () => {
  await installCustomResources(cluster);
});

const webhook = { url: 'https://billing.example.com/' };
const kafka = { brokers: ['kafka.example.com:9093'], topic: 'usage' };
const sasl = { username: 'u', passwordSecretRef: { name: 'k', key: 'password' } };
const key = { name: 'billing', key: 'key' };
const lago = { url: 'https://lago.example.com', apiKeySecretRef: key };
const bucket = {
  region: 'eu-1',
  name: 'costs',
  accessKeyIdSecretRef: key,
  secretAccessKeySecretRef: key,
};
const named = { namespace: 'acme', name: 'prod' };

interface Row {
  readonly reason: string;
  readonly plural: Plural;
  readonly spec: object;
  readonly name?: string;
  /** The field that the message must be about. */
  readonly field?: string;
  readonly message: string;
}

const withUrl = (url: string): object => ({ type: 'webhook', webhook: { url } });
const withHeader = (...headers: readonly object[]): object => ({
  type: 'webhook',
  webhook: { ...webhook, headers },
});
const matching = (match: object): object => ({ match, tenant: 'acme' });

const BLOCK = 'must be set when spec.type is';
const URL = 'must be an absolute http or https URL, such as https://billing.example.com/events';
const PROMETHEUS_URL =
  'must be an absolute http or https URL, such as http://prometheus.monitoring.svc:9090';
const STORE_URL =
  'must be an absolute http or https URL, such as https://s3.eu-central-1.amazonaws.com';
const CREDENTIALS = 'must not carry credentials; reference a Secret instead';
const LINK_LOCAL = 'must not be a link-local or cloud metadata address';
const OWN_HEADER = 'this header is set by the operator';
const SECRET_HEADER = 'this header carries a credential; use valueSecretRef';
const ONE_VALUE = 'give either value or valueSecretRef';
const ONE_MATCH = 'give either namespace and name, or a selector';
const EMPTY_SELECTOR =
  'an empty selector would match every tenant cluster; give at least one requirement';
const LABEL_KEY = 'a key must be a label key, such as example.com/team';
const NODE_LABEL_KEY = 'a key must be a label key, such as karpenter.sh/capacity-type';
const VALUES = 'In and NotIn need values; Exists and DoesNotExist take none';
const WINDOW = 'must be a duration in whole seconds between 10s and 1h, such as 60s';
const DIVIDES = 'must divide an hour, as 10s, 30s, 60s, 5m and 1h do';
const ONE_CHARGE = 'give one of amount, graduated, volume and withdrawn';
const COMPLETE_MONTHS =
  'tiers and included quantities count by calendar months; begin on the first day of one';
const OPEN_TIER = 'every tier but the last must have upTo, and the last must not';

/** A price book of GPU hours at 1 EUR since 2026, but for what is given. */
const pricing = (...prices: readonly object[]): object => ({
  currency: 'EUR',
  prices: prices.map((price) => ({
    metric: 'tenant_gpu_hours',
    rates: [{ from: '2026-01-01', amount: '1' }],
    ...price,
  })),
});

const tokensBy = (tokens: object): object => ({
  ingest: { cloudEvents: [{ type: 't', tokens }] },
});

const BUDGET_COUNTS = 'give currency for an amount of money, or metric for a quantity';
const BUDGET_DAYS = 'days belongs to the period rolling, and is needed there';

/** Each cross-field rule, broken. */
const BROKEN: readonly Row[] = [
  ...[
    {
      reason: 'no block for its type',
      spec: { type: 'webhook' },
      message: `spec.webhook ${BLOCK}`,
    },
    { reason: 'no block for its type', spec: { type: 'lago' }, message: `spec.lago ${BLOCK}` },
    { reason: 'no block for its type', spec: { type: 'stripe' }, message: `spec.stripe ${BLOCK}` },
    {
      reason: 'no block for its type',
      spec: { type: 'metronome' },
      message: `spec.metronome ${BLOCK}`,
    },
    { reason: 'no block for its type', spec: { type: 'kafka' }, message: `spec.kafka ${BLOCK}` },
    {
      reason: 'a password that everybody can read',
      spec: {
        type: 'kafka',
        kafka: { ...kafka, tls: false, sasl: { ...sasl, mechanism: 'PLAIN' } },
      },
      message: 'PLAIN without TLS sends the password readable for everybody',
    },
    {
      reason: 'an authority for connections that are not encrypted',
      spec: {
        type: 'kafka',
        kafka: { ...kafka, tls: false, caSecretRef: { name: 'k', key: 'ca' } },
      },
      message: 'caSecretRef has no effect without tls',
    },
    {
      reason: 'a broker at a metadata address',
      spec: { type: 'kafka', kafka: { ...kafka, brokers: ['169.254.169.254:9092'] } },
      message: 'must not be a link-local or cloud metadata address',
    },
    {
      reason: 'a block of another type beside its own',
      spec: { type: 'webhook', webhook, lago },
      message: `spec.lago ${BLOCK}`,
    },
    {
      reason: 'a block where none belongs',
      spec: { type: 'noop', webhook },
      message: `spec.webhook ${BLOCK}`,
    },
    {
      reason: 'a type whose feature does not exist',
      spec: { type: 'openmeter' },
      message: 'spec.type: Unsupported value: "openmeter"',
    },
    {
      reason: 'a name that is too long for a cursor',
      spec: { type: 'noop' },
      name: 'n'.repeat(64),
      message: 'the name of a BillingDestination has at most 63 characters',
    },
    { reason: 'a relative address', spec: withUrl('/events'), message: URL },
    {
      reason: 'a scheme that is not HTTP',
      spec: withUrl('ftp://billing.example.com'),
      message: URL,
    },
    { reason: 'an address without a host', spec: withUrl('https:///events'), message: URL },
    {
      reason: 'a password in the address',
      spec: withUrl('https://me:pw@b.example.com/'),
      message: CREDENTIALS,
    },
    {
      reason: 'a user in the address',
      spec: withUrl('https://me@b.example.com/'),
      message: CREDENTIALS,
    },
    {
      reason: 'the metadata service',
      spec: withUrl('http://169.254.169.254/latest'),
      message: LINK_LOCAL,
    },
    {
      reason: 'a link-local IPv6 address',
      spec: withUrl('http://[fe80::1]:80/'),
      message: LINK_LOCAL,
    },
    {
      reason: 'the metadata service as billing server',
      spec: { type: 'lago', lago: { ...lago, url: 'http://169.254.169.254/' } },
      message: LINK_LOCAL,
    },
    {
      reason: 'an address of which the end is never sent',
      spec: withUrl('https://b.example.com/#events'),
      message: 'must not have a fragment; remove the part from # on',
    },
    {
      reason: 'a base address that paths cannot be added to',
      spec: { type: 'lago', lago: { ...lago, url: 'https://lago.example.com/?v=1' } },
      message: 'must not have a query; remove the part from ? on',
    },
    { reason: 'a header without a value', spec: withHeader({ name: 'X-A' }), message: ONE_VALUE },
    {
      reason: 'a header with two values',
      spec: withHeader({ name: 'X-A', value: 'a', valueSecretRef: key }),
      message: ONE_VALUE,
    },
    {
      reason: 'the signature forged by a header',
      spec: withHeader({ name: 'X-SVC-Signature', value: 't=1,v1=0' }),
      message: OWN_HEADER,
    },
    {
      reason: 'a credential in plain text',
      spec: withHeader({ name: 'authorization', value: 'Bearer abc' }),
      message: SECRET_HEADER,
    },
    {
      reason: 'one header in two spellings',
      spec: withHeader({ name: 'X-A', value: 'a' }, { name: 'x-a', value: 'b' }),
      message: 'a header may be named once, whatever its case',
    },
    {
      reason: 'a line break smuggled into a header',
      spec: withHeader({ name: 'X-A', value: 'a\r\nHost: b' }),
      message: "spec.webhook.headers[0].value in body should match '^[ -~]*$'",
    },
    {
      reason: 'sums of hours',
      spec: { type: 'noop', aggregate: '1h' },
      message: 'removed; make windows longer by COLLECTION_INTERVAL and delete this field',
      field: 'spec.aggregate',
    },
    {
      reason: 'prices that meterfeed sets',
      spec: { type: 'noop', managePrices: true },
      message: 'removed; set prices at the billing system and delete this field',
      field: 'spec.managePrices',
    },
  ].map((row): Row => ({ ...row, plural: 'billingdestinations' })),
  ...[
    {
      reason: 'nothing overridden',
      spec: { match: named },
      message: 'an override must override something',
    },
    {
      reason: 'a budget of money and of a quantity',
      spec: {
        match: named,
        budget: { amount: '1', period: 'month', currency: 'EUR', metric: 'tenant_gpu_hours' },
      },
      message: BUDGET_COUNTS,
    },
    {
      reason: 'rolling days without a number of them',
      spec: { match: named, budget: { amount: '1', period: 'rolling', currency: 'EUR' } },
      message: BUDGET_DAYS,
    },
    { reason: 'a match that names nothing', spec: matching({}), message: ONE_MATCH },
    { reason: 'half a name', spec: matching({ namespace: 'acme' }), message: ONE_MATCH },
    {
      reason: 'a name and a selector',
      spec: matching({ ...named, selector: { matchLabels: { a: 'b' } } }),
      message: ONE_MATCH,
    },
    {
      reason: 'a selector that would match everyone',
      spec: matching({ selector: { matchLabels: {}, matchExpressions: [] } }),
      message: EMPTY_SELECTOR,
    },
    {
      reason: 'a label key that no object can carry',
      spec: matching({ selector: { matchLabels: { '-team': 'blue' } } }),
      message: LABEL_KEY,
    },
    {
      reason: 'a label key that no node can carry',
      spec: {
        ...matching({ namespace: 'acme', name: 'prod' }),
        metering: { privateNodeLabels: { '-capacity-type': 'spot' } },
      },
      message: NODE_LABEL_KEY,
    },
    ...[
      { field: 'ownNodeTrust', value: 'provider', instead: 'privateNodeTrust' },
      { field: 'ownNodeLabels', value: { spot: 'yes' }, instead: 'privateNodeLabels' },
      { field: 'maxOwnNodes', value: 7, instead: 'maxPrivateNodes' },
    ].map(({ field, value, instead }) => ({
      reason: `the removed ${field}`,
      spec: { match: named, metering: { [field]: value } },
      message: `removed; set ${instead} and delete this field`,
      field: `spec.metering.${field}`,
    })),
    {
      reason: 'In without values',
      spec: matching({ selector: { matchExpressions: [{ key: 'tier', operator: 'In' }] } }),
      message: VALUES,
    },
    {
      reason: 'Exists with values',
      spec: matching({
        selector: { matchExpressions: [{ key: 'tier', operator: 'Exists', values: ['gold'] }] },
      }),
      message: VALUES,
    },
  ].map((row): Row => ({ ...row, plural: 'tenantoverrides' })),
  ...[
    {
      reason: 'a second policy',
      spec: {},
      name: 'another',
      message: 'there is one MeteringPolicy, and its name is default',
    },
    ...[
      { field: 'ownNodeTrust', value: 'provider', instead: 'privateNodeTrust' },
      { field: 'ownNodeDowntimePercent', value: 5, instead: 'privateNodeDowntimePercent' },
      { field: 'maxOwnNodes', value: 7, instead: 'maxPrivateNodes' },
    ].map(({ field, value, instead }) => ({
      reason: `the removed ${field}`,
      spec: { [field]: value },
      message: `removed; set ${instead} and delete this field`,
      field: `spec.${field}`,
    })),
    {
      reason: 'a budget of money and of a quantity',
      spec: {
        defaultBudget: {
          amount: '1',
          period: 'month',
          currency: 'EUR',
          metric: 'tenant_gpu_hours',
        },
      },
      message: BUDGET_COUNTS,
    },
    {
      reason: 'rolling days without a number of them',
      spec: { defaultBudget: { amount: '1', period: 'rolling', currency: 'EUR' } },
      message: BUDGET_DAYS,
    },
    ...[
      { of: { grace: { time: '1h' } }, message: 'grace belongs to atLimit suspend' },
      { of: { atLimit: 'warn', grace: { time: '1h' } }, message: 'grace belongs to atLimit' },
      { of: { atLimit: 'suspend', grace: {} }, message: 'give time, or an amount' },
      {
        of: { atLimit: 'suspend', grace: { time: '1h', amount: '1' } },
        message: 'give time, or an amount',
      },
      { of: { atLimit: 'suspend', grace: { time: '35d' } }, message: 'a duration of at most 34d' },
      { of: { thresholds: [0] }, message: 'defaultBudget.thresholds[0]' },
      { of: { thresholds: [101] }, message: 'defaultBudget.thresholds[0]' },
      { of: { thresholds: [80, 80] }, message: 'Duplicate value' },
      { of: { atLimit: 'stop' }, message: 'Unsupported value' },
    ].map(({ of, message }) => ({
      reason: `a budget with ${JSON.stringify(of)}`,
      spec: { defaultBudget: { amount: '1', period: 'month', currency: 'EUR', ...of } },
      message,
    })),
    ...[
      { of: { frameAncestors: ['*'] }, message: 'frameAncestors[0]' },
      { of: { frameAncestors: ['https://*'] }, message: 'frameAncestors[0]' },
      { of: { frameAncestors: ['http://console.example.com'] }, message: 'frameAncestors[0]' },
      { of: { frameAncestors: ['https://a.example; script-src *'] }, message: 'frameAncestors[0]' },
      { of: { frameAncestors: ['https://*.com'] }, message: 'a domain with at least two names' },
      { of: { logo: 'https://example.com/logo.svg' }, message: 'portal.logo' },
      { of: { logo: 'data:text/html;base64,PGI+' }, message: 'portal.logo' },
      { of: { colors: {} }, message: 'give light, dark or both' },
      { of: { colors: { light: 'red;}' } }, message: 'colors.light' },
      { of: { name: ' ' }, message: 'portal.name' },
    ].map(({ of, message }) => ({
      reason: `a portal with ${JSON.stringify(of)}`,
      spec: { portal: of },
      message,
    })),
    {
      reason: 'a FOCUS subcategory that the standard does not list',
      spec: { focus: { services: [{ metric: 'm', name: 'M', subcategory: 'GPUs' }] } },
      message: 'Unsupported value',
    },
    { reason: 'a blank provider', spec: { focus: { provider: ' ' } }, message: 'focus.provider' },
    {
      reason: 'a window below the smallest',
      spec: { collectionInterval: '9s' },
      message: WINDOW,
    },
    {
      reason: 'a window above the largest',
      spec: { collectionInterval: '2h' },
      message: WINDOW,
    },
    {
      reason: 'no window at all',
      spec: { collectionInterval: '0s' },
      message: WINDOW,
    },
    {
      reason: 'windows that drift over the hour',
      spec: { collectionInterval: '7m' },
      message: DIVIDES,
    },
    {
      reason: 'windows that drift over the hour',
      spec: { collectionInterval: '59s' },
      message: DIVIDES,
    },
    {
      reason: 'windows that do not end on a second',
      spec: { collectionInterval: '10500ms' },
      message: WINDOW,
    },
    {
      reason: 'discovery that never pauses',
      spec: { reconcileInterval: '0.5s' },
      field: 'spec.reconcileInterval',
      message: 'must be a duration between 1s and 1h, such as 30s',
    },
    {
      reason: 'backfill past what the ledger keeps ids for, in days',
      spec: { maxBackfill: '35d' },
      field: 'spec.maxBackfill',
      message: 'must be a duration of at most 34d, such as 90m or 7d',
    },
    {
      reason: 'backfill past what the ledger keeps ids for, in hours',
      spec: { maxBackfill: '817h' },
      field: 'spec.maxBackfill',
      message: 'must be a duration of at most 34d, such as 90m or 7d',
    },
    {
      reason: 'a grace that never ends',
      spec: { offboardGrace: '9999d' },
      field: 'spec.offboardGrace',
      message: 'must be a duration of at most 34d, such as 90m or 7d',
    },
    {
      reason: 'a negative duration',
      spec: { offboardGrace: '-1h' },
      field: 'spec.offboardGrace',
      message: 'must be a duration of at most 34d, such as 90m or 7d',
    },
    {
      reason: 'windows that close after the next one',
      spec: { settlingDelay: '31s' },
      field: 'spec.settlingDelay',
      message: 'must be a duration of at most 30s, such as 3s',
    },
    {
      reason: 'a window that closes after the next one has ended',
      spec: { settlingDelay: '10s', collectionInterval: '10s' },
      message: 'settlingDelay must be shorter than collectionInterval',
    },
    {
      reason: 'a MIG resource as a full GPU, which would bill a seventh as a whole',
      spec: { gpuResources: ['nvidia.com/mig-1g.10gb'] },
      message: 'leave it out; MIG and shared resources are always detected',
    },
    {
      reason: 'a count of GPUs that nobody knows',
      spec: { gpuQuantity: 'slices' },
      message: 'Unsupported value: "slices": supported values: "equivalents", "devices"',
    },
    {
      reason: 'a shared resource as a full GPU',
      spec: { gpuResources: ['nvidia.com/gpu.shared'] },
      message: 'leave it out; MIG and shared resources are always detected',
    },
    {
      reason: 'a node selector that names no tenant cluster, which would give all nodes to each',
      spec: { dedicatedNodeLabel: 'example.com/dedicated-to=all' },
      message: 'in body should match',
    },
    {
      reason: 'usage that goes before anybody can look',
      spec: { retention: '59m' },
      message: 'must be a duration of at least 1h and at most 36500d, such as 36h or 30d',
    },
    {
      reason: 'kubeconfigs that lead to the metadata service',
      spec: { tenantAPI: { allowedHosts: ['169.254.169.254'] } },
      message: LINK_LOCAL,
    },
    ...[
      { reason: 'a relative address', spec: { url: 'prometheus' }, message: PROMETHEUS_URL },
      {
        reason: 'a password in the address',
        spec: { url: 'https://me:pw@prometheus/' },
        message: CREDENTIALS,
      },
      {
        reason: 'an address with a fragment',
        spec: { url: 'https://prometheus/#graph' },
        message: 'must not have a fragment; remove the part from # on',
      },
      {
        reason: 'an address that paths cannot be added to',
        spec: { url: 'https://prometheus/?a=b' },
        message: 'must not have a query; remove the part from ? on',
      },
      {
        reason: 'the metadata service',
        spec: { url: 'http://169.254.169.254/' },
        message: LINK_LOCAL,
      },
      {
        reason: 'a credential for a server that it does not name',
        spec: { bearerTokenSecretRef: key },
        message: 'basicAuth, bearerTokenSecretRef and headers are sent to url; set url beside them',
      },
      {
        reason: 'two credentials',
        spec: {
          url: 'https://prometheus',
          bearerTokenSecretRef: key,
          basicAuth: { username: 'me', passwordSecretRef: key },
        },
        message: 'give either basicAuth or bearerTokenSecretRef',
      },
      {
        reason: 'a header without a value',
        spec: { url: 'https://prometheus', headers: [{ name: 'X-A' }] },
        message: ONE_VALUE,
      },
      {
        reason: 'a header that the operator sets',
        spec: { url: 'https://prometheus', headers: [{ name: 'Host', value: 'a' }] },
        message: OWN_HEADER,
      },
      {
        reason: 'a credential in plain text',
        spec: { url: 'https://prometheus', headers: [{ name: 'Authorization', value: 'a' }] },
        message: SECRET_HEADER,
      },
      {
        reason: 'one header in two spellings',
        spec: {
          url: 'https://prometheus',
          headers: [
            { name: 'X-A', value: 'a' },
            { name: 'x-a', value: 'b' },
          ],
        },
        message: 'a header may be named once, whatever its case',
      },
    ].map((row) => ({ ...row, spec: { prometheus: row.spec } })),
    {
      reason: 'FOCUS files that go nowhere',
      spec: { focus: { export: { format: 'csv' } } },
      message: 'set either directory or bucket',
    },
    ...[
      ['a store without a scheme', 's3.example.com', STORE_URL],
      ['a store with a password in its address', 'https://me:pw@s3.example.com', CREDENTIALS],
      ['the metadata service as a store', 'http://169.254.169.254', LINK_LOCAL],
    ].map(([reason = '', endpoint = '', message = '']) => ({
      reason,
      spec: { focus: { export: { bucket: { ...bucket, endpoint } } } },
      message,
    })),
    {
      reason: 'a dimension that would overwrite what is billed',
      spec: { customMetrics: [{ code: 'llm_tokens', unit: 'tokens', dimensions: ['quantity'] }] },
      message: 'this is a field of every event; choose another key',
    },
    {
      reason: 'a custom metric that pre-empts a measured one',
      spec: { customMetrics: [{ code: 'tenant_gpu_hours', unit: 'gpu-hours' }] },
      message: 'this is a built-in metric; choose another code',
    },
    {
      reason: 'a code that the catalogue has for tokens',
      spec: { customMetrics: [{ code: 'tenant_inference_tokens', unit: 'tokens' }] },
      message: 'this is a built-in metric; choose another code',
    },
    {
      reason: 'sums of seconds, which are requests again',
      spec: { ingest: { window: '10s' } },
      message: 'must be a duration between 60s and 1h, such as 1h',
    },
    {
      reason: 'windows that no hour has',
      spec: { ingest: { window: '7m' } },
      message: 'must divide an hour, as 60s, 5m, 15m and 1h do',
    },
    {
      reason: 'keys of requests for longer than a day',
      spec: { ingest: { lateFor: '25h' } },
      message: 'must be a duration of at most 24h, such as 2h',
    },
    {
      reason: 'a rule that counts nothing',
      spec: { ingest: { cloudEvents: [{ type: 't' }] } },
      message: 'give a preset, or a type with tokens or metrics',
    },
    {
      reason: 'a search instead of a path',
      spec: tokensBy({ input: '$..tokens' }),
      message: 'spec.ingest.cloudEvents[0].tokens.input in body should match',
    },
    {
      reason: 'no tokens',
      spec: tokensBy({}),
      message: 'give input and output, or count and kind',
    },
    {
      reason: 'a count of unknown kind',
      spec: tokensBy({ count: '$.n' }),
      message: 'count and kind belong together',
    },
    {
      reason: 'a kind beside kinds',
      spec: tokensBy({
        count: '$.n',
        kind: '$.k',
        reasoning: '$.r',
        outputIncludesReasoning: true,
      }),
      message: 'kind names the kind of count; leave out cacheRead, cacheWrite and reasoning',
    },
    {
      reason: 'cached tokens that may be billed twice',
      spec: tokensBy({ input: '$.i', cacheRead: '$.c' }),
      message: 'state inputIncludesCached exactly if cacheRead or cacheWrite is given',
    },
    {
      reason: 'reasoning that may be billed twice',
      spec: tokensBy({ output: '$.o', reasoning: '$.r' }),
      message: 'state outputIncludesReasoning exactly if reasoning is given',
    },
    {
      reason: 'anchors that are posted to a path',
      spec: { anchors: { webhook: '/anchors' } },
      message: URL,
    },
  ].map((row): Row => ({ ...row, plural: 'meteringpolicies' })),
  ...[
    {
      reason: 'a price for a key that no event can have',
      spec: pricing({ name: 'a', match: { 'capacity-type': 'spot' } }),
      message: 'a key must be sku, region or the name of a dimension, such as capacity_type',
    },
    ...[
      { reason: 'a rate that says nothing', rate: {}, message: ONE_CHARGE },
      {
        reason: 'a rate with two prices',
        rate: { amount: '1', volume: [{ amount: '1' }] },
        message: ONE_CHARGE,
      },
      {
        reason: 'a price that is not withdrawn and says no other',
        rate: { withdrawn: false },
        message: 'withdrawn stands alone and is true',
      },
      {
        reason: 'free units of nothing',
        rate: { withdrawn: true, included: '5' },
        message: 'withdrawn stands alone and is true',
      },
      {
        reason: 'tiers that begin in the middle of the month that they count',
        rate: { from: '2026-12-15', volume: [{ amount: '1' }] },
        message: COMPLETE_MONTHS,
      },
      {
        reason: 'an included quantity that begins in the middle of its month',
        rate: { from: '2026-12-15', amount: '1', included: '5' },
        message: COMPLETE_MONTHS,
      },
      {
        reason: 'tiers that leave the largest customers without a price',
        rate: { graduated: [{ upTo: '10', amount: '1' }] },
        message: OPEN_TIER,
      },
      {
        reason: 'a tier that no unit reaches',
        rate: { volume: [{ amount: '2' }, { amount: '1' }] },
        message: OPEN_TIER,
      },
      {
        reason: 'an amount that is a double, which loses digits',
        rate: { amount: 0.1 },
        message: 'must be of type string',
      },
      {
        reason: 'a price below zero',
        rate: { amount: '-1' },
        message: 'in body should match',
      },
    ].map(({ rate, ...row }) => ({
      ...row,
      spec: pricing({ name: 'a', rates: [{ from: '2026-12-01', ...rate }] }),
    })),
  ].map((row): Row => ({ ...row, plural: 'pricebooks' })),
];

describe('custom resources', () => {
  test.each(PLURALS.flatMap((plural) => COMPLETE_SPECS[plural].map((spec) => ({ plural, spec }))))(
    'a valid object of $plural is accepted: $spec',
    async ({ plural, spec }) => {
      expect(await dryRun(plural, manifest(plural, spec))).toBe('accepted');
    },
  );

  test.each(BROKEN)('$plural: $reason is refused: $message', async (row) => {
    const answer = await dryRun(row.plural, manifest(row.plural, row.spec, row.name));
    expect(answer).toContain(row.message);
    expect(answer).toContain(row.field ?? '');
  });

  test.each(PLURALS)('%s: no cross-field rule lacks a row above', (plural) => {
    const messages = [...places(schemaOf(plural))].flatMap(({ schema }) =>
      (schema['x-kubernetes-validations'] ?? []).map((rule) => rule.message),
    );
    const untried = messages
      .filter((message) => !TRANSITIONS.some((reported) => overlaps(reported, message)))
      .filter((message) => !BROKEN.some((row) => overlaps(row.message, message)));
    expect(messages.length).toBeGreaterThan(0);
    expect(untried).toEqual([]);
  });

  test('a destination never becomes one of another type under the same cursor', async () => {
    const path = '/apis/meterfeed.io/v1alpha1/billingdestinations';
    const first = manifest('billingdestinations', { type: 'noop' }, 'immutable-type');
    const created = await cluster.call('POST', path, first);
    const changed = { ...created, spec: { type: 'webhook', webhook } };
    const answer = await cluster.request('PUT', `${path}/immutable-type`, changed);
    expect(answer.status).toBe(422);
    expect(answer.body['message']).toContain(IMMUTABLE);
    await cluster.call('DELETE', `${path}/immutable-type`);
  });

  test('a price that has been in force is changed by nobody, and those to come are', async () => {
    const path = '/apis/meterfeed.io/v1alpha1/pricebooks';
    const rates = [{ from: '2026-01-01', amount: '1' }];
    const gpu = { name: 'gpu', rates };
    const spot = { name: 'spot', match: { capacity_type: 'spot' } };
    await cluster.call('POST', path, manifest('pricebooks', pricing(gpu), 'fixed'));
    const status = { fixedBefore: '2026-11-22' };
    const file = JSON.stringify({ status });
    const patch = ['patch', 'pricebook', 'fixed', '--subresource=status', '--type=merge'];
    await cluster.kubectl([...patch, '--patch', file]);
    const change = async (spec: object): Promise<string> => {
      const { body } = await cluster.request('GET', `${path}/fixed`);
      const answer = await cluster.request('PUT', `${path}/fixed`, { ...body, spec });
      return answer.status === 200 ? 'accepted' : String(answer.body['message']);
    };
    const later = { from: '2026-11-22', amount: '2' };
    expect(await change(pricing({ ...gpu, rates: [...rates, later] }))).toBe('accepted');
    for (const next of [
      pricing({ ...gpu, rates: [{ from: '2026-01-01', amount: '0.5' }] }),
      pricing({ ...gpu, rates: [{ from: '2026-01-02', amount: '1' }] }),
      pricing({ ...gpu, rates: [...rates, { from: '2026-11-21', amount: '2' }] }),
      pricing({ ...gpu, match: { sku: 'h100' } }),
      pricing({ ...gpu, metric: 'tenant_lb_hours' }),
      pricing({ ...gpu, name: 'renamed' }),
      pricing(gpu, spot),
    ]) {
      expect(await change(next)).toContain(FIXED);
    }
    expect(await change({ ...pricing(gpu), currency: 'USD' })).toContain(FIXED_CURRENCY);
    expect(await change(pricing(gpu, { ...spot, rates: [later] }))).toBe('accepted');
    await cluster.call('DELETE', `${path}/fixed`);
  });

  test('the largest book of prices is taken and may grow, whatever the rules have to compare', async () => {
    const path = '/apis/meterfeed.io/v1alpha1/pricebooks';
    // With more rates the object is larger than etcd stores.
    const months = Array.from({ length: 24 }, (_, index) => new Date(Date.UTC(2024, index)));
    const rates = months.map((month) => ({
      from: month.toISOString().slice(0, 10),
      amount: '100000000000.123456789012',
    }));
    const keys = ['sku', 'region', 'capacity_type', 'billing_mode', 'tenant_class', 'gpu_type'];
    const prices = Array.from({ length: 500 }, (_, index) => ({
      name: `p${index}`.padEnd(63, 'x'),
      // Equal in all keys but the last.
      match: Object.fromEntries(
        keys.map((key) => [
          key,
          key === 'gpu_type' ? `v${index}`.padStart(128, 'x') : 'x'.repeat(128),
        ]),
      ),
      rates: rates.slice(0, -1),
    }));
    await cluster.call('POST', path, manifest('pricebooks', pricing(...prices), 'largest'));
    const status = JSON.stringify({ status: { fixedBefore: '2025-06-01' } });
    const patch = ['patch', 'pricebook', 'largest', '--subresource=status', '--type=merge'];
    await cluster.kubectl([...patch, '--patch', status]);
    const { body } = await cluster.request('GET', `${path}/largest`);
    const spec = pricing(...prices.map((price) => ({ ...price, rates })));
    const answer = await cluster.request('PUT', `${path}/largest`, { ...body, spec });
    expect(answer).toMatchObject({ status: 200 });
    await cluster.call('DELETE', `${path}/largest`);
  }, 120_000);

  test('defaults show what is in force', async () => {
    const answer = await cluster.call(
      'POST',
      '/apis/meterfeed.io/v1alpha1/billingdestinations?dryRun=All',
      manifest('billingdestinations', { type: 'noop' }),
    );
    expect(answer['spec']).toEqual({
      type: 'noop',
      suspend: false,
      startFrom: 'now',
      mode: 'test',
      planChange: 'now',
    });
  });

  test('an object with a field that was removed later gets no status that says so', async () => {
    const path = '/apis/meterfeed.io/v1alpha1/billingdestinations';
    const crd = readFileSync(`${CRD_DIRECTORY}/billingdestinations.yaml`, 'utf8');
    const lenient = crd.replace('"!self"', "'true'").replace("rule: self != '1h'", "rule: 'true'");
    await cluster.kubectl(['apply', '--server-side', '--filename', '-'], lenient);
    const spec = { type: 'noop', managePrices: true, aggregate: '1h' };
    const earlier = manifest('billingdestinations', spec, 'of-an-earlier-version');
    const within = { timeout: 20_000, interval: 200 };
    await vi.waitFor(() => cluster.call('POST', path, earlier), within);
    await installCustomResources(cluster);
    await vi.waitFor(async () => {
      expect(await dryRun('billingdestinations', manifest('billingdestinations', spec))).toContain(
        'removed',
      );
    }, within);
    const stored = await cluster.call('GET', `${path}/of-an-earlier-version`);
    const reported = { ...stored, status: { summary: 'InvalidSpec: spec.managePrices: removed' } };
    expect(
      (await cluster.request('PUT', `${path}/of-an-earlier-version/status`, reported)).status,
    ).toBe(200);
    await cluster.call('DELETE', `${path}/of-an-earlier-version`);
  });

  test('short names and the category list what a user looks for', async () => {
    const name = 'listed-by-short-name';
    const destination = manifest('billingdestinations', { type: 'noop' }, name);
    await cluster.kubectl(['apply', '--filename', '-'], JSON.stringify(destination));
    expect(await cluster.kubectl(['get', 'bdest', name])).toMatch(
      /^NAME +TYPE +LAG SECONDS +AGE +STATUS\n/,
    );
    expect(await cluster.kubectl(['get', 'bdest', '--field-selector', 'spec.type=noop'])).toContain(
      name,
    );
    expect(await cluster.kubectl(['get', 'meterfeed', '--output', 'name'])).toContain(
      `billingdestination.meterfeed.io/${name}`,
    );
    await cluster.kubectl(['delete', 'billingdestination', name]);
  });
});

const IMMUTABLE = 'spec.type cannot be changed; create another BillingDestination';
const FIXED = 'prices and rates that begin before status.fixedBefore cannot be changed';
const FIXED_CURRENCY =
  'prices in this currency have been in force; make another PriceBook for another currency';

/** Rules about a change, which have tests of their own. */
const TRANSITIONS = [IMMUTABLE, FIXED, FIXED_CURRENCY];

/** A row may quote a message with the field in front of it, or only its beginning. */
function overlaps(row: string, message: string): boolean {
  return row.includes(message) || message.includes(row);
}

/** `accepted`, or the API server's message. Unknown fields are refused, as kubectl does. */
async function dryRun(plural: Plural, object: Manifest): Promise<unknown> {
  const path = `/apis/meterfeed.io/v1alpha1/${plural}?dryRun=All&fieldValidation=Strict`;
  const answer = await cluster.request('POST', path, object);
  return answer.status === 201 ? 'accepted' : answer.body['message'];
}
