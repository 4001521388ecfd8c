import { describe, expect, test } from 'vitest';
import { type Environment, loadEnvironment } from './load-environment.ts';
import { DESTINATIONS } from '../destinations/registry.ts';

function problemsOf(environment: Environment): readonly string[] {
  const loaded = loadEnvironment(environment, DESTINATIONS);
  return loaded.kind === 'invalid' ? loaded.problems : [];
}

const INVALID: readonly (readonly [environment: Environment, problem: string])[] = [
  [
    { COLLECTION_INTERVAL: '5s' },
    'COLLECTION_INTERVAL: too short: "5s"; must be between 10s and 1h',
  ],
  [
    { COLLECTION_INTERVAL: '2h' },
    'COLLECTION_INTERVAL: too long: "2h"; must be between 10s and 1h',
  ],
  [
    { COLLECTION_INTERVAL: 'abc' },
    'COLLECTION_INTERVAL: not a duration: "abc"; write it as in 90s, 1h30m or 7d',
  ],
  [
    { COLLECTION_INTERVAL: '60' },
    'COLLECTION_INTERVAL: not a duration: "60"; write it as in 90s, 1h30m or 7d',
  ],
  [
    { COLLECTION_INTERVAL: '-60s' },
    'COLLECTION_INTERVAL: a negative duration: "-60s"; write it as in 90s, 1h30m or 7d',
  ],
  [
    { COLLECTION_INTERVAL: '7m' },
    'COLLECTION_INTERVAL: does not divide an hour into windows of whole seconds: "7m"; take one of 10s, 15s, 20s, 30s, 60s, 2m, 5m, 10m, 15m, 30m, 1h or the like',
  ],
  [
    { COLLECTION_INTERVAL: '11250ms' },
    'COLLECTION_INTERVAL: does not divide an hour into windows of whole seconds: "11250ms"; take one of 10s, 15s, 20s, 30s, 60s, 2m, 5m, 10m, 15m, 30m, 1h or the like',
  ],
  [{ RETENTION: '0' }, 'RETENTION: too short: "0"; must be between 1h and 36500d'],
  [{ MAX_BACKFILL: '35d' }, 'MAX_BACKFILL: too long: "35d"; must be between 0s and 34d'],
  [
    { CPU_MEMORY_BASIS: 'Usage' },
    'CPU_MEMORY_BASIS: not one of the choices: "Usage"; use usage, requests or max',
  ],
  [{ TENANT_API: 'on' }, 'TENANT_API: not a boolean: "on"; use true or false'],
  [{ REGION: '  ' }, 'REGION: blank: ""; give a value, or remove the variable'],
  [
    { REGION: 'a\u0000b' },
    'REGION: contains control characters: "a\\u0000b"; give 1 to 256 printable characters',
  ],
  [
    { LABEL_PREFIX: 'Meter/feed' },
    'LABEL_PREFIX: not a label prefix: "Meter/feed"; use lower case letters, digits, - and ., as in meterfeed.io',
  ],
  [
    { WATCH_NAMESPACES: 'a,,b' },
    'WATCH_NAMESPACES: an empty item in the list: "a,,b"; remove the surplus comma',
  ],
  [{ WATCH_NAMESPACES: 'a,b,a' }, 'WATCH_NAMESPACES: listed twice: "a"; name it once'],
  [
    { WATCH_NAMESPACES: 'a,B_b' },
    'WATCH_NAMESPACES: not a namespace name: "B_b"; use lower case letters, digits and -, at most 63',
  ],
  [
    { WATCH_NAMESPACES: 'none,a' },
    'WATCH_NAMESPACES: "none" beside other items: "none,a"; write "none" alone',
  ],
  [
    { GPU_RESOURCES: 'gpu' },
    'GPU_RESOURCES: not an extended resource: "gpu"; write it with its domain, as in nvidia.com/gpu',
  ],
  [
    { GPU_RESOURCES: 'nvidia.com/mig-1g.10gb' },
    'GPU_RESOURCES: not a full GPU: "nvidia.com/mig-1g.10gb"; leave it out: MIG and shared resources are always detected',
  ],
  [
    { UNHEALTHY_NODE_TAINTS: 'a/b:NoExecute' },
    'UNHEALTHY_NODE_TAINTS: not a taint key: "a/b:NoExecute"; name the key alone, as in node.kubernetes.io/not-ready',
  ],
  [
    { VCLUSTER_NODE_LABEL: 'team' },
    'VCLUSTER_NODE_LABEL: not a label selector: "team"; write key=%s, where %s stands for the name of the tenant cluster',
  ],
  [
    { VCLUSTER_NODE_LABEL: 'team=x' },
    'VCLUSTER_NODE_LABEL: must contain %s once: "team=x"; write key=%s, where %s stands for the name of the tenant cluster',
  ],
  [
    { CUSTOM_METRICS: 'tenant_gpu_hours:h' },
    'CUSTOM_METRICS: a built-in metric: "tenant_gpu_hours:h"; choose another code',
  ],
  [
    { CUSTOM_METRICS: 'tokens' },
    'CUSTOM_METRICS: no unit: "tokens"; write code:unit or code:unit:key|key',
  ],
  [
    { CUSTOM_METRICS: 'a:b:c:d' },
    'CUSTOM_METRICS: more than three parts: "a:b:c:d"; write code:unit or code:unit:key|key',
  ],
  [{ CUSTOM_METRICS: 'a:b,a:c' }, 'CUSTOM_METRICS: declared twice: "a"; declare each code once'],
  [
    { CUSTOM_METRICS: 'a:b:value' },
    'CUSTOM_METRICS: a key that cannot be used: "a:b:value"; use a-z, 0-9 and _, and no field of the event',
  ],
  [
    { ENFORCEMENT_RULES: 'a=gone' },
    'ENFORCEMENT_RULES: not a rule: "a=gone"; write event.type=active, warning, delinquent or suspended',
  ],
  [
    { ENFORCEMENT_RULES: 'a=active,a=warning' },
    'ENFORCEMENT_RULES: two rules for one event type: "a"; keep one',
  ],
  [
    { LISTEN_ADDR: '8080' },
    'LISTEN_ADDR: not a listen address: "8080"; write :8080, 127.0.0.1:8080 or [::1]:8080',
  ],
  [{ LISTEN_ADDR: ':70000' }, 'LISTEN_ADDR: not a port: ":70000"; use a port of at most 65535'],
  [
    { BILLING_CURRENCY: 'EURO' },
    'BILLING_CURRENCY: not an ISO 4217 currency: "EURO"; give a code such as USD or EUR',
  ],
  [
    { BILLING_A_MAX_RPS: '-1' },
    'BILLING_A_MAX_RPS: not a whole number: "-1"; give a whole number between 0 and 10000',
  ],
  [
    { DATA_DIR: 'data' },
    'DATA_DIR: not an absolute path: "data"; give an absolute path, such as /var/lib/meterfeed',
  ],
  [
    { BILLING_C_API_URL: 'http://169.254.169.254' },
    'BILLING_C_API_URL: a link-local or cloud metadata address: "http://169.254.169.254"; name the server itself',
  ],
  [
    { WEBHOOK_URL: 'https://me:pw@x.example.com/p?token=t' },
    'WEBHOOK_URL: a URL with credentials: "https://***@x.example.com/p?***"; give them in a header or key variable instead',
  ],
  [
    { EGRESS_QUERY: 'sum(x{n={{namespace}}})' },
    'EGRESS_QUERY: placeholder outside a string: "{{namespace}}"; write "…" around it',
  ],
  [
    { EGRESS_QUERY: 'sum(x{n="{{nmspace}}"})' },
    'EGRESS_QUERY: unknown placeholder: "{{nmspace}}"; use {{namespace}} {{vcluster}} {{instance}} {{project}} {{tenant}} {{tenant_cluster}} {{window}} {{window_seconds}}',
  ],
  [{ EGRESS_QUERY: 'sum(x{n="a})' }, 'EGRESS_QUERY: an open quote: "\\""; close it'],
  [{ API_TOKEN: ' \n' }, 'API_TOKEN: blank: "***"; give a value, or remove the variable'],
  [
    { INGEST_TOKEN: 'abc;metric=tokens_used' },
    'INGEST_TOKEN: not a scope: "***"; write token;metrics=a|b;tenants=x|y;use=events|access|path, each part once and not empty',
  ],
  [
    { INGEST_TOKEN: 'abc;use=read' },
    'INGEST_TOKEN: not a scope: "***"; write token;metrics=a|b;tenants=x|y;use=events|access|path, each part once and not empty',
  ],
  [
    { INGEST_TOKEN: 'short;use=events|path' },
    'INGEST_TOKEN: not for a path: "***"; take at least 24 of A-Z, a-z, 0-9, ".", "_", "~", "-", with use=events|path or use=access|path',
  ],
  [
    { INGEST_TOKEN: 'long-enough-for-any-path-at-all;use=path' },
    'INGEST_TOKEN: not for a path: "***"; take at least 24 of A-Z, a-z, 0-9, ".", "_", "~", "-", with use=events|path or use=access|path',
  ],
  [
    { INGEST_TOKEN: 'abc;tenants=' },
    'INGEST_TOKEN: not a scope: "***"; write token;metrics=a|b;tenants=x|y;use=events|access|path, each part once and not empty',
  ],
  [
    { INGEST_TOKEN: 'abc;tenants=a,abc' },
    'INGEST_TOKEN: listed twice: "***"; name each token once, with all of its scope',
  ],
  [
    { API_TOKEN: 'one two' },
    'API_TOKEN: not a credential: "***"; use printable ASCII characters without spaces',
  ],
  [
    { WEBHOOK_HEADERS: 'X-A' },
    'WEBHOOK_HEADERS: an item that is no Name=value: "***"; write Name=value,Name=value',
  ],
  [
    { WEBHOOK_HEADERS: 'Content-Length=4' },
    'WEBHOOK_HEADERS: header Content-Length is set by the operator: "***"; leave it out',
  ],
  [
    { BILLING_C_API_KEY: 'a', LAGO_API_KEY: 'b' },
    'BILLING_C_API_KEY: differs from LAGO_API_KEY: "***"; keep one of the two',
  ],
  [
    { STRIPE_MAX_RPS: '1', BILLING_A_MAX_RPS: '2' },
    'BILLING_A_MAX_RPS: differs from STRIPE_MAX_RPS: "2"; keep one of the two',
  ],
  [
    { METRONOME_STRIPE_LINK: 'perhaps' },
    'METRONOME_STRIPE_LINK: not a boolean: "perhaps"; use true or false',
  ],
  [
    { REPLICATED: 'true' },
    'REPLICATED: no database for several processes: "true"; set LEDGER_URL, or run a single one with a volume',
  ],
  [
    { LEDGER_SPOOL_SIZE: '2Gi' },
    'LEDGER_SPOOL_SIZE: removed: "2Gi"; delete it; windows wait in memory while the database is away',
  ],
];

describe('a wrong value silently becomes the default', () => {
  test.each(INVALID)('%j', (environment, problem) => {
    expect(problemsOf(environment)).toStrictEqual([problem]);
  });
});

test('an operator mends one variable after the other, restarting each time', () => {
  const problems = problemsOf({
    COLLECTION_INTERVAL: 'soon',
    TENANT_API: 'maybe',
    ADAPTERS: 'webhook,lago,bogus',
    SETTLING_DELAY: '1h',
  });
  expect(new Set(problems.map((problem) => problem.split(':')[0]))).toStrictEqual(
    new Set([
      'ADAPTERS',
      'COLLECTION_INTERVAL',
      'LAGO_API_KEY',
      'SETTLING_DELAY',
      'TENANT_API',
      'WEBHOOK_URL',
    ]),
  );
});

test('a key that is itself wrong is not also called missing', () => {
  expect(problemsOf({ ADAPTERS: 'lago', LAGO_API_KEY: 'a b' })).toStrictEqual([
    'LAGO_API_KEY: not a credential: "***"; use printable ASCII characters without spaces',
  ]);
});
