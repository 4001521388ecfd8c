import { Secret } from '../model/secret.ts';
import type {
  DestinationSettings,
  EnforcementSettings,
  HttpSettings,
  OtlpSettings,
  Settings,
} from './settings.ts';
import { defaultOf, type SettingsOf, type SettingTable } from './table/setting.ts';
import { TABLE, type Values } from './table/table.ts';

/** The parsed value or the default of each variable, by name. */
export type ParsedVariables = Readonly<Record<string, unknown>>;

/** The parts of `Settings` that {@link TABLE} describes. */
export type Parts = { readonly [Part in keyof typeof TABLE]: SettingsOf<(typeof TABLE)[Part]> };

/** Builds the parts of the table from the variables; a missing value gets its default. */
export function partsOf(parsed: ParsedVariables): Parts {
  const parts = Object.entries<SettingTable>(TABLE).map(([part, table]) => {
    const values = Object.entries(table).map(([key, setting]) => {
      const given = setting.variable === undefined ? undefined : parsed[setting.variable];
      return [key, given ?? defaultOf(setting)] as const;
    });
    return [part, Object.fromEntries(values.filter(([, value]) => value !== undefined))];
  });
  // Each value comes from the parser of its own setting, so it has the declared type.
  return Object.fromEntries(parts) as Parts;
}

/** The settings of the environment alone, before any custom resource. */
export function assembleSettings(
  parts: Parts,
  values: Values,
  destinations: readonly DestinationSettings[],
  webhookSecrets: EnforcementSettings['webhookSecrets'],
): Settings {
  const [database, ...furtherDatabases] = values.LEDGER_URL ?? [];
  const { PROMETHEUS_URL: server, PROMETHEUS_BEARER_TOKEN_FILE: bearerTokenFile } = values;
  const otlp = otlpSettings(values);
  return {
    ...parts,
    role: values.ROLE,
    metering: {
      ...parts.metering,
      capacityTypeLabel:
        parts.metering.capacityTypeLabel ?? `${parts.identity.labelPrefix}/capacity-type`,
    },
    prometheus: {
      ...parts.prometheus,
      ...server,
      headers: values.PROMETHEUS_HEADERS ?? new Map<string, Secret>(),
      bearerTokenFile,
    },
    ledger: {
      ...parts.ledger,
      database,
      ...(furtherDatabases.length > 0 && { furtherDatabases }),
    },
    http: httpSettings(parts.http, values),
    enforcement: { ...parts.enforcement, webhookSecrets },
    billing: {
      destinations,
      defaultPlanCode: values.DEFAULT_PLAN_CODE,
      currency: values.BILLING_CURRENCY,
    },
    pricing: { books: [] },
    portal: { frameAncestors: [] },
    focus: { services: [] },
    otlp,
    overrides: [],
  };
}

function otlpSettings(values: Values): OtlpSettings | undefined {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint } = values;
  if (endpoint === undefined) return undefined;
  return {
    endpoint,
    headers: values.OTEL_EXPORTER_OTLP_HEADERS ?? new Map<string, Secret>(),
    intervalMs: values.OTEL_METRIC_EXPORT_INTERVAL,
  };
}

/** Without INGEST_TOKEN and INGEST_TOKEN_FILE, the API tokens are also valid for ingest. */
function httpSettings(http: Parts['http'], values: Values): HttpSettings {
  const { INGEST_TOKEN, INGEST_TOKEN_FILE, LISTEN_ADDR } = values;
  const own = INGEST_TOKEN !== undefined || INGEST_TOKEN_FILE !== undefined;
  const ingestTokenFile = own ? INGEST_TOKEN_FILE : http.apiTokenFile;
  return {
    ...http,
    ...LISTEN_ADDR,
    ingestTokens: own ? (INGEST_TOKEN ?? []) : http.apiTokens.map((token) => ({ token })),
    ingestTokenFile,
  };
}
