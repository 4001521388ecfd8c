import { headers, ingestTokens, secrets } from '../parsers/credentials.ts';
import { duration } from '../parsers/durations.ts';
import { enforcementRules } from '../parsers/enforcement-rules.ts';
import { listenAddress } from '../parsers/hosts.ts';
import { ledgerUrls } from '../parsers/ledger-url.ts';
import { list } from '../parsers/lists.ts';
import { absolutePath, boolean, choice, integer, text } from '../parsers/scalars.ts';
import { signingKeys } from '../parsers/signing-keys.ts';
import { baseUrl, prometheusUrl } from '../parsers/urls.ts';
import type { SettingTable } from './setting.ts';

/** What a process is in a fleet (docs/how-to/fleet.md). */
export const ROLES = ['meter', 'hub', 'all'] as const;

/** What Prometheus is asked for; its server is one of {@link PROCESS_VARIABLES}. */
export const PROMETHEUS = {
  preset: {
    variable: 'PROMETHEUS_PRESET',
    meaning:
      'Which labels the built-in queries select by; `vcluster-platform` takes those of the platform’s instance and project.',
    parser: choice('default', 'vcluster-platform'),
    default: 'default',
    fields: ['MeteringPolicy spec.prometheus.preset'],
    test: 'operator/prometheus/real-prometheus.test.ts',
  },
  metricsFile: {
    variable: 'PROMETHEUS_METRICS_FILE',
    meaning:
      'File that defines metrics by queries, evaluated per tenant cluster at every window end; its layout is in docs/explanation/prometheus.md#metrics-of-your-own. Followed while the operator runs.',
    parser: absolutePath(),
    test: 'operator/prometheus/metrics-file.test.ts',
  },
} as const satisfies SettingTable;

/** Where usage is recorded, and for how long. */
export const LEDGER = {
  dataDir: {
    variable: 'DATA_DIR',
    meaning: 'Directory of the ledger and its sums, unless LEDGER_URL names a database.',
    parser: absolutePath(),
    default: '/var/lib/vbilling-data',
    test: 'operator/app/process-variables.test.ts',
  },
  databaseFile: {
    variable: 'LEDGER_URL_FILE',
    meaning: 'A file with what LEDGER_URL would say in its place, read at start.',
    parser: absolutePath(),
    test: 'operator/app/open-ledger.test.ts',
  },
  durability: {
    variable: 'LEDGER_DURABILITY',
    meaning:
      'When usage counts as stored in PostgreSQL: `standby` acknowledges nothing unless a synchronous standby is configured; `storage` trusts the one server, for services whose storage is replicated below it.',
    parser: choice('standby', 'storage'),
    default: 'standby',
    test: 'operator/ledger/postgres/durability.test.ts',
  },
  retentionMs: {
    variable: 'RETENTION',
    meaning: 'How long closed ledger segments are kept after every destination has consumed them.',
    parser: duration('1h', '36500d'),
    default: '168h',
    fields: ['MeteringPolicy spec.retention'],
    test: 'operator/ledger/leveldb/retention.test.ts',
  },
} as const satisfies SettingTable;

/** What becomes of usage that is pushed in. */
export const INGEST = {
  unknownTenants: {
    meaning:
      'What becomes of pushed usage of a tenant that nobody knows: `hold` keeps it until somebody releases or renames it, `create` makes a customer of the name at once (docs/reference/events.md#unknown-tenants).',
    parser: choice('hold', 'create'),
    default: 'hold',
    fields: ['MeteringPolicy spec.ingest.unknownTenants'],
    test: 'operator/http/held-tenants.test.ts',
  },
} as const satisfies SettingTable;

/** The HTTP server and its credentials. */
export const HTTP = {
  probe: {
    variable: 'PROBE_ADDR',
    meaning:
      'Address of `/healthz` and `/readyz` alone, for the kubelet: whoever fills the connections of LISTEN_ADDR cannot keep it from them. The StatefulSet sets `:8081`.',
    parser: listenAddress(),
    otherwise: 'the probes have no port of their own',
    test: 'operator/http/hostile-peers.test.ts',
  },
  apiTokens: {
    variable: 'API_TOKEN',
    absent: [],
    meaning:
      'Bearer token of `/api/*`; several during rotation. Without one, reading is open and changing is refused.',
    parser: secrets(),
    shown: 'masked',
    test: 'operator/http/access.test.ts',
  },
  apiTokenFile: {
    variable: 'API_TOKEN_FILE',
    meaning:
      'A file with more tokens as in API_TOKEN, one a line. It is read again when it changes; a token that is gone from it is good for five minutes more.',
    parser: absolutePath(),
    test: 'operator/http/tokens.test.ts',
  },
  portalKeys: {
    variable: 'PORTAL_KEYS',
    absent: [],
    meaning:
      'Private keys of the tokens of `/portal`, the first signs and all are good; from then on reading needs a token as well. Prefer PORTAL_KEYS_FILE (docs/how-to/portal.md).',
    parser: signingKeys(),
    otherwise: 'there is no portal',
    shown: 'masked',
    test: 'operator/http/portal/portal-tokens.test.ts',
  },
  portalKeysFile: {
    variable: 'PORTAL_KEYS_FILE',
    meaning:
      'A file with keys as in PORTAL_KEYS, in front of those. It is read again when it changes; a key that is gone from it is good for nothing from then on.',
    parser: absolutePath(),
    test: 'operator/http/tokens.test.ts',
  },
} as const satisfies SettingTable;

/** What follows from the alerts of billing systems. */
export const ENFORCEMENT = {
  mode: {
    variable: 'ENFORCEMENT_MODE',
    meaning:
      'What billing alerts lead to: a recorded state, marks on control planes as well, or refused pods of suspended tenants as well (docs/how-to/enforcement.md).',
    parser: choice('observe', 'annotate', 'enforce'),
    default: 'observe',
    fields: ['MeteringPolicy spec.enforcement.mode', 'TenantOverride spec.enforcement'],
    test: 'operator/billing/enforcement/enforcement.apiserver.test.ts',
  },
  rules: {
    variable: 'ENFORCEMENT_RULES',
    meaning:
      'The billing state that an event type of a billing provider leads to, in place of or beside the built-in ones.',
    parser: enforcementRules(),
    default: 'none',
    fields: ['MeteringPolicy spec.enforcement.rules'],
    test: 'operator/billing/enforcement/inbox.test.ts',
  },
  neverSuspend: {
    meaning:
      'Ids of tenants whose pods are never refused, whatever billing systems and budgets say.',
    parser: list(text(400)),
    default: 'none',
    fields: ['MeteringPolicy spec.enforcement.neverSuspend'],
    test: 'operator/app/budget-gate.apiserver.test.ts',
  },
} as const satisfies SettingTable;

/** What is logged, and how. */
export const LOG = {
  level: {
    variable: 'LOG_LEVEL',
    meaning: 'The least severe messages to log.',
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

/** Variables that settings are composed of, by their names. */
export const PROCESS_VARIABLES = {
  ROLE: {
    meaning:
      'What this process is in a fleet (docs/how-to/fleet.md): `meter` meters its cluster and feeds no destination but the BillingDestinations there, `hub` meters nothing and feeds its destinations out of every stream of the database, `all` is one operator by itself.',
    parser: choice(...ROLES),
    default: 'all',
    test: 'operator/app/hub/hub.test.ts',
  },
  LEDGER_URL: {
    meaning:
      'PostgreSQL database to keep the ledger in, 15 or newer, on a host that always leads to the primary (docs/how-to/postgresql.md). A hub may have several.',
    parser: ledgerUrls(),
    otherwise: 'the ledger is in DATA_DIR',
    shown: 'url',
    test: 'operator/app/open-ledger.test.ts',
  },
  REPLICATED: {
    meaning:
      'Whether several processes run on one ledger, as the Deployment of the component `replicated` has it: then none starts without LEDGER_URL. With a database they may be several in any case.',
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
      'Bearer token of `POST /api/v1/events`; several during rotation, each for all metrics and tenants or for those named behind it. Ingest is disabled when there is neither this nor API_TOKEN.',
    parser: ingestTokens(),
    otherwise: 'API_TOKEN',
    shown: 'masked',
    test: 'operator/http/access.test.ts',
  },
  INGEST_TOKEN_FILE: {
    meaning: 'As API_TOKEN_FILE, with tokens as in INGEST_TOKEN.',
    parser: absolutePath(),
    test: 'operator/http/tokens.test.ts',
  },
  PROMETHEUS_URL: {
    meaning:
      'A Prometheus-compatible HTTP query API; enables egress and GPU utilization. Basic credentials in it are accepted.',
    parser: prometheusUrl(),
    shown: 'url',
    fields: ['MeteringPolicy spec.prometheus.url', 'MeteringPolicy spec.prometheus.basicAuth'],
    test: 'operator/prometheus/prometheus-client.test.ts',
  },
  PROMETHEUS_HEADERS: {
    meaning: 'Headers added to queries, such as a tenant id or `Authorization`.',
    parser: headers(),
    shown: 'masked',
    fields: ['MeteringPolicy spec.prometheus.headers'],
    test: 'operator/prometheus/prometheus-client.test.ts',
  },
  PROMETHEUS_BEARER_TOKEN_FILE: {
    meaning: 'File with a bearer token, read again on every query.',
    parser: absolutePath(),
    fields: ['MeteringPolicy spec.prometheus.bearerTokenSecretRef'],
    test: 'operator/prometheus/prometheus-client.test.ts',
  },
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    meaning:
      'Collector of OpenTelemetry that metrics and traces of the operator itself go to, by OTLP over HTTP, without `/v1/…` (docs/how-to/opentelemetry.md).',
    parser: baseUrl(),
    otherwise: 'nothing is exported',
    test: 'operator/app/otlp.test.ts',
  },
  OTEL_EXPORTER_OTLP_HEADERS: {
    meaning: 'Headers added to what goes to the collector.',
    parser: headers(),
    shown: 'masked',
    test: 'operator/app/otlp.test.ts',
  },
  OTEL_METRIC_EXPORT_INTERVAL: {
    meaning: 'Milliseconds between two reports of metrics to the collector.',
    parser: integer(1_000, 3_600_000),
    default: '60000',
    test: 'operator/app/otlp.test.ts',
  },
} as const satisfies SettingTable;
