import { cloudEventRules, presetRules, subjectRules } from '../parsers/cloud-event-rules.ts';
import { headers, ingestTokens, secrets } from '../parsers/credentials.ts';
import { duration, windowSize } from '../parsers/durations.ts';
import { enforcementRules } from '../parsers/enforcement-rules.ts';
import { listenAddress } from '../parsers/hosts.ts';
import { ledgerUrls } from '../parsers/ledger-url.ts';
import { list } from '../parsers/lists.ts';
import { absolutePath, boolean, choice, integer, text } from '../parsers/scalars.ts';
import { signingKeys } from '../parsers/signing-keys.ts';
import { baseUrl, prometheusUrl, url } from '../parsers/urls.ts';
import type { SettingTable } from './setting.ts';

/** The roles of a process in a fleet (docs/how-to/fleet.md). */
export const ROLES = ['meter', 'hub', 'all'] as const;

/** Queries of Prometheus. Its server is in {@link PROCESS_VARIABLES}. */
export const PROMETHEUS = {
  preset: {
    variable: 'PROMETHEUS_PRESET',
    meaning: 'Labels that built-in queries select by; `vcluster-platform`: instance and project.',
    parser: choice('default', 'vcluster-platform'),
    default: 'default',
    fields: ['MeteringPolicy spec.prometheus.preset'],
    test: 'operator/prometheus/real-prometheus.test.ts',
  },
  metricsFile: {
    variable: 'PROMETHEUS_METRICS_FILE',
    meaning:
      'File with metrics by queries (docs/explanation/metering.md). Changes count without a restart.',
    parser: absolutePath(),
    test: 'operator/prometheus/metrics-file.test.ts',
  },
} as const satisfies SettingTable;

/** Where usage is stored, and for how long. */
export const LEDGER = {
  dataDir: {
    variable: 'DATA_DIR',
    meaning: 'Directory of the ledger, unless LEDGER_URL is set.',
    parser: absolutePath(),
    default: '/var/lib/vbilling-data',
    test: 'operator/app/process-variables.test.ts',
  },
  databaseFile: {
    variable: 'LEDGER_URL_FILE',
    meaning: 'File with LEDGER_URL, read at start.',
    parser: absolutePath(),
    test: 'operator/app/open-ledger.test.ts',
  },
  durability: {
    variable: 'LEDGER_DURABILITY',
    meaning:
      'When usage counts as stored in PostgreSQL: `standby` needs a synchronous standby, `storage` trusts one server with replicated storage.',
    parser: choice('standby', 'storage'),
    default: 'standby',
    test: 'operator/ledger/postgres/durability.test.ts',
  },
  retentionMs: {
    variable: 'RETENTION',
    meaning: 'How long events stay after every destination got them.',
    parser: duration('1h', '36500d'),
    default: '168h',
    fields: ['MeteringPolicy spec.retention'],
    test: 'operator/ledger/leveldb/retention.test.ts',
  },
} as const satisfies SettingTable;

/** Where the signed head of the ledger is stored once a day. */
export const ANCHORS = {
  configMap: {
    meaning:
      'Whether the signed head of the ledger is stored once a day in the ConfigMap `meterfeed-anchors` (docs/how-to/check-a-bill.md#anchors).',
    parser: boolean(),
    default: 'false',
    fields: ['MeteringPolicy spec.anchors.configMap'],
    test: 'operator/app/anchors.apiserver.test.ts',
  },
  webhook: {
    meaning: 'URL that receives the signed head of the ledger once a day.',
    parser: url(),
    otherwise: 'nothing is posted',
    shown: 'url',
    fields: ['MeteringPolicy spec.anchors.webhook'],
    test: 'operator/app/anchors.apiserver.test.ts',
  },
} as const satisfies SettingTable;

/** How pushed usage is handled. */
export const INGEST = {
  unknownTenants: {
    meaning:
      'Pushed usage of unknown tenants: hold it, or create a customer (docs/reference/events.md#unknown-tenants).',
    parser: choice('hold', 'create'),
    default: 'hold',
    fields: ['MeteringPolicy spec.ingest.unknownTenants'],
    test: 'operator/http/held-usage.test.ts',
  },
  windowMs: {
    meaning: 'The size of the windows in which requests of AI gateways are summed.',
    parser: windowSize('60s'),
    default: '1h',
    fields: ['MeteringPolicy spec.ingest.window'],
    test: 'operator/controllers/ingest-fields.test.ts',
  },
  lateForMs: {
    meaning: 'How late an event of an AI gateway may arrive and still count.',
    parser: duration('0s', '24h'),
    default: '2h',
    fields: ['MeteringPolicy spec.ingest.lateFor'],
    test: 'operator/controllers/ingest-fields.test.ts',
  },
  subjects: {
    meaning: 'The tenants of the users, teams or keys that AI gateways name.',
    parser: subjectRules(),
    default: 'none',
    fields: ['MeteringPolicy spec.ingest.subjects'],
    test: 'operator/intake/read-reported.test.ts',
  },
  cloudEvents: {
    meaning:
      'How events of AI gateways become usage (docs/how-to/ai-gateways.md#a-rule-of-your-own).',
    parser: cloudEventRules(),
    absent: presetRules(),
    otherwise: 'all presets',
    fields: ['MeteringPolicy spec.ingest.cloudEvents'],
    test: 'operator/intake/read-reported.test.ts',
  },
  entitlementAccessQuery: {
    meaning: 'Answer the poll of Kong (docs/how-to/ai-gateways.md#the-poll-of-kong).',
    parser: boolean(),
    default: 'false',
    fields: ['MeteringPolicy spec.ingest.entitlementAccessQuery'],
    test: 'operator/http/access-query.test.ts',
  },
} as const satisfies SettingTable;

/** The HTTP server and its credentials. */
export const HTTP = {
  probe: {
    variable: 'PROBE_ADDR',
    meaning:
      'Separate address of `/healthz` and `/readyz` for the kubelet. The StatefulSet sets `:8081`.',
    parser: listenAddress(),
    otherwise: 'the probes have no port of their own',
    test: 'operator/http/hostile-peers.test.ts',
  },
  apiTokens: {
    variable: 'API_TOKEN',
    absent: [],
    meaning: 'Tokens of `/api/*`. Without one everybody can read and nobody can change.',
    parser: secrets(),
    shown: 'masked',
    test: 'operator/http/access.test.ts',
  },
  apiTokenFile: {
    variable: 'API_TOKEN_FILE',
    meaning: 'File with more tokens, one a line. A removed token works five more minutes.',
    parser: absolutePath(),
    test: 'operator/http/tokens.test.ts',
  },
  portalKeys: {
    variable: 'PORTAL_KEYS',
    absent: [],
    meaning:
      'Private keys of portal tokens; the first signs. With them reading needs a token (docs/how-to/portal.md).',
    parser: signingKeys(),
    otherwise: 'there is no portal',
    shown: 'masked',
    test: 'operator/http/portal/portal-tokens.test.ts',
  },
  portalKeysFile: {
    variable: 'PORTAL_KEYS_FILE',
    meaning: 'File with keys, before those of PORTAL_KEYS. A removed key stops at once.',
    parser: absolutePath(),
    test: 'operator/http/tokens.test.ts',
  },
} as const satisfies SettingTable;

/** How alerts of billing systems are enforced. */
export const ENFORCEMENT = {
  mode: {
    variable: 'ENFORCEMENT_MODE',
    meaning:
      'Billing alerts only set a state, also mark control planes, or also refuse pods of suspended tenants (docs/how-to/enforcement.md).',
    parser: choice('observe', 'annotate', 'enforce'),
    default: 'observe',
    fields: ['MeteringPolicy spec.enforcement.mode', 'TenantOverride spec.enforcement'],
    test: 'operator/billing/enforcement/enforcement.apiserver.test.ts',
  },
  rules: {
    variable: 'ENFORCEMENT_RULES',
    meaning: 'Billing states by event type of a billing system, before the built-in rules.',
    parser: enforcementRules(),
    default: 'none',
    fields: ['MeteringPolicy spec.enforcement.rules'],
    test: 'operator/billing/enforcement/inbox.test.ts',
  },
  neverSuspend: {
    meaning: 'Tenants whose pods are never refused.',
    parser: list(text(400)),
    default: 'none',
    fields: ['MeteringPolicy spec.enforcement.neverSuspend'],
    test: 'operator/app/budget-limiter.apiserver.test.ts',
  },
} as const satisfies SettingTable;

/** The level and format of logs. */
export const LOG = {
  level: {
    variable: 'LOG_LEVEL',
    meaning: 'Least severe messages to log.',
    parser: choice('debug', 'info', 'warn', 'error'),
    default: 'info',
    fields: ['MeteringPolicy spec.logLevel'],
    test: 'operator/app/process-variables.test.ts',
  },
  format: {
    variable: 'LOG_FORMAT',
    meaning: 'JSON, or text for people.',
    parser: choice('json', 'text'),
    default: 'json',
    test: 'operator/app/process-variables.test.ts',
  },
} as const satisfies SettingTable;

/** Variables that settings are built from, by name. */
export const PROCESS_VARIABLES = {
  ROLE: {
    meaning:
      'Role in a fleet (docs/how-to/fleet.md): `meter` meters its cluster, `hub` delivers all streams of the database, `all` is one operator alone.',
    parser: choice(...ROLES),
    default: 'all',
    test: 'operator/app/hub/hub.test.ts',
  },
  LEDGER_URL: {
    meaning:
      'PostgreSQL (15 or newer) for the ledger. The host must lead to the primary. A hub may have several.',
    parser: ledgerUrls(),
    otherwise: 'the ledger is in DATA_DIR',
    shown: 'url',
    test: 'operator/app/open-ledger.test.ts',
  },
  REPLICATED: {
    meaning: 'Set by the component `replicated`: no process starts without LEDGER_URL.',
    parser: boolean(),
    default: 'false',
    test: 'operator/settings/invalid-environment.test.ts',
  },
  LISTEN_ADDR: {
    meaning: 'Address of the HTTP API, dashboard, metrics and webhooks.',
    parser: listenAddress(),
    default: ':8080',
    test: 'operator/app/process-variables.test.ts',
  },
  INGEST_TOKEN: {
    meaning:
      'Tokens of `POST /api/v1/events` and of access checks, each for everything or for named metrics and tenants (docs/how-to/ai-gateways.md#tokens). Without this and API_TOKEN nobody can push.',
    parser: ingestTokens(),
    otherwise: 'API_TOKEN',
    shown: 'masked',
    test: 'operator/http/access.test.ts',
  },
  INGEST_TOKEN_FILE: {
    meaning: 'As API_TOKEN_FILE, for INGEST_TOKEN.',
    parser: absolutePath(),
    test: 'operator/http/tokens.test.ts',
  },
  PROMETHEUS_URL: {
    meaning: 'A Prometheus-compatible query API. Enables egress and GPU utilization.',
    parser: prometheusUrl(),
    shown: 'url',
    fields: ['MeteringPolicy spec.prometheus.url', 'MeteringPolicy spec.prometheus.basicAuth'],
    test: 'operator/prometheus/prometheus-client.test.ts',
  },
  PROMETHEUS_HEADERS: {
    meaning: 'Headers added to queries, such as `Authorization`.',
    parser: headers(),
    shown: 'masked',
    fields: ['MeteringPolicy spec.prometheus.headers'],
    test: 'operator/prometheus/prometheus-client.test.ts',
  },
  PROMETHEUS_BEARER_TOKEN_FILE: {
    meaning: 'File with a bearer token, read on every query.',
    parser: absolutePath(),
    fields: ['MeteringPolicy spec.prometheus.bearerTokenSecretRef'],
    test: 'operator/prometheus/prometheus-client.test.ts',
  },
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    meaning:
      'OpenTelemetry collector (OTLP over HTTP) for metrics and traces, without `/v1/…` (docs/how-to/opentelemetry.md).',
    parser: baseUrl(),
    otherwise: 'nothing is exported',
    test: 'operator/app/otlp.test.ts',
  },
  OTEL_EXPORTER_OTLP_HEADERS: {
    meaning: 'Headers of requests to the collector.',
    parser: headers(),
    shown: 'masked',
    test: 'operator/app/otlp.test.ts',
  },
  OTEL_METRIC_EXPORT_INTERVAL: {
    meaning: 'Milliseconds between two exports of metrics.',
    parser: integer(1_000, 3_600_000),
    default: '60000',
    test: 'operator/app/otlp.test.ts',
  },
} as const satisfies SettingTable;
