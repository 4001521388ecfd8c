import type { Budget } from '../model/budget.ts';
import type { DestinationType } from '../model/destination-type.ts';
import type { PriceBook } from '../model/price-book.ts';
import type { Secret } from '../model/secret.ts';
import type { BillingDetails, PlanChange } from '../model/tenant.ts';
import type { IngestToken, TokenUse } from './parsers/credentials.ts';
import type { BillingState } from './parsers/enforcement-rules.ts';
import type { LedgerDatabase } from './parsers/ledger-url.ts';
import type { DISCOVERY, TENANT_API } from './table/discovery.ts';
import type { IDENTITY } from './table/identity.ts';
import type { METERING } from './table/metering.ts';
import type { ENFORCEMENT, HTTP, INGEST, LEDGER, LOG, PROMETHEUS, ROLES } from './table/service.ts';
import type { SettingsOf, SettingTable } from './table/setting.ts';
import type { TABLE } from './table/table.ts';

export { BILLING_STATES } from './parsers/enforcement-rules.ts';
export type { BillingState, IngestToken, LedgerDatabase, TokenUse };

export type Role = (typeof ROLES)[number];

/**
 * All settings of the engine, as one immutable value that is replaced as a unit. Order:
 * TenantOverride → MeteringPolicy → environment → default
 * (docs/reference/configuration.md#where-a-value-comes-from). All durations are milliseconds.
 */
export interface Settings {
  readonly role: Role;
  readonly identity: IdentitySettings;
  readonly discovery: DiscoverySettings;
  readonly metering: MeteringSettings;
  readonly tenantApi: TenantApiSettings;
  readonly prometheus: PrometheusSettings;
  readonly ledger: LedgerSettings;
  readonly anchors: SettingsOf<(typeof TABLE)['anchors']>;
  readonly ingest: IngestSettings;
  readonly http: HttpSettings;
  readonly enforcement: EnforcementSettings;
  readonly billing: {
    /** The destinations of ADAPTERS with their options. */
    readonly destinations: readonly DestinationSettings[];
    readonly defaultPlanCode: string;
    readonly currency: string;
  };
  readonly pricing: PricingSettings;
  readonly portal: PortalSettings;
  readonly focus: FocusSettings;
  readonly log: LogSettings;
  /** Absent: nothing is exported to an OpenTelemetry collector. */
  readonly otlp?: OtlpSettings;
  /** In no particular order; discovery applies them. */
  readonly overrides: readonly TenantOverrideSettings[];
}

/** The OTLP collector for the operator's own metrics and traces, over HTTP. */
export interface OtlpSettings {
  /** Without the path of the signal, `/v1/metrics` or `/v1/traces`. */
  readonly endpoint: string;
  readonly headers: ReadonlyMap<string, Secret>;
  /** Between two exports of metrics. */
  readonly intervalMs: number;
}

export type IdentitySettings = SettingsOf<typeof IDENTITY>;

export type DiscoverySettings = SettingsOf<typeof DISCOVERY>;

/** All durations are milliseconds. */
export interface MeteringSettings extends SettingsOf<typeof METERING> {
  readonly capacityTypeLabel: string;
  /**
   * Labels that the provider sets on all private nodes of a tenant cluster. Only a TenantOverride
   * sets them.
   */
  readonly privateNodeLabels?: Readonly<Record<string, string>>;
}

type OverrideField = `TenantOverride spec.metering.${string}`;
type Overridable<T extends SettingTable> = {
  [K in keyof T]: OverrideField & NonNullable<T[K]['fields']>[number] extends never ? never : K;
}[keyof T];

/**
 * The metering settings of one tenant cluster: those that a TenantOverride may change, and
 * `gpuQuantity`.
 */
export type TenantMeteringSettings = Pick<
  MeteringSettings,
  Overridable<typeof METERING> | 'gpuQuantity' | 'privateNodeLabels'
>;

export type TenantApiSettings = SettingsOf<typeof TENANT_API>;

export interface PrometheusSettings extends SettingsOf<typeof PROMETHEUS> {
  readonly url?: string;
  /** Name and password as `user:password`. */
  readonly basicAuth?: Secret;
  readonly bearerToken?: Secret;
  readonly headers: ReadonlyMap<string, Secret>;
  readonly bearerTokenFile?: string;
  /**
   * Why a credential of the URL is missing. No query is sent while it is set; missed windows are
   * queried later.
   */
  readonly credentialProblem?: string;
}

export interface LedgerSettings extends SettingsOf<typeof LEDGER> {
  /** Absent while the ledger is in `dataDir`. */
  readonly database?: LedgerDatabase;
  /** More databases; only a hub has them. */
  readonly furtherDatabases?: readonly LedgerDatabase[];
}

/** An append is acknowledged once a synchronous standby has it, or the single server. */
export type LedgerDurability = LedgerSettings['durability'];

export type IngestSettings = SettingsOf<typeof INGEST>;

export interface HttpSettings extends SettingsOf<typeof HTTP> {
  /** `''` listens on all addresses. */
  readonly host: string;
  readonly port: number;
  /** INGEST_TOKEN, else API_TOKEN; empty means that ingest is disabled. */
  readonly ingestTokens: readonly IngestToken[];
  /** INGEST_TOKEN_FILE, else API_TOKEN_FILE where there is no INGEST_TOKEN either. */
  readonly ingestTokenFile?: string;
}

/** The look of the tenants' portal, and where it may be embedded (docs/how-to/portal.md). */
export interface PortalSettings {
  /** Replaces the title `Usage`. */
  readonly name?: string;
  /** A `data:` URI of an SVG or PNG image in base64. */
  readonly logo?: string;
  /** Colour of links, buttons and bars, `#rrggbb`, on light and on dark background. */
  readonly colors?: { readonly light?: string; readonly dark?: string };
  /** Origins that may embed the portal. */
  readonly frameAncestors: readonly string[];
}

/** Names in FOCUS files (docs/reference/focus.md#names). An absent one is that of the provider. */
export interface FocusSettings {
  /** Absent: the name of the portal. */
  readonly provider?: string;
  readonly publisher?: string;
  readonly invoiceIssuer?: string;
  readonly hostProvider?: string;
  /** Replace the services of metrics; each metric is in there once. */
  readonly services: readonly {
    readonly metric: string;
    readonly name: string;
    /** One of FOCUS, such as `Generative AI`. It implies the category. */
    readonly subcategory: string;
  }[];
  /** Whether GPU downtime has rows, at no cost. Absent: false. */
  readonly downtime?: boolean;
  /** Absent: no files are written. */
  readonly export?: FocusExportSettings;
}

export type FocusFormat = 'csv' | 'parquet';

/** 1.2 has the columns of 1.3 beside its own. */
export type FocusVersion = '1.2' | '1.4';

/** Where FOCUS files are written every hour, and how (docs/reference/focus.md#files). */
export interface FocusExportSettings {
  readonly format: FocusFormat;
  readonly grain: 'hour' | 'day';
  readonly version: FocusVersion;
  readonly target:
    | { readonly kind: 'directory'; readonly path: string }
    /** A bucket of an S3-compatible store. */
    | {
        readonly kind: 'bucket';
        /** Base URL, without the bucket. */
        readonly endpoint: string;
        readonly region: string;
        readonly name: string;
        /** Before the name of each object; empty, or ends with a slash. */
        readonly prefix: string;
        readonly accessKeyId: Secret;
        readonly secretAccessKey: Secret;
      }
    /** The bucket's credentials cannot be read. */
    | { readonly kind: 'unusable'; readonly problem: string };
}

export interface EnforcementSettings extends SettingsOf<typeof ENFORCEMENT> {
  /**
   * The secrets that verify the alerts of each billing system. Alerts are refused where the list is
   * empty.
   */
  readonly webhookSecrets: Readonly<Record<DestinationType, readonly Secret[]>>;
}

export interface PricingSettings {
  /** One for each priced plan, sorted by name. */
  readonly books: readonly PriceBook[];
  /** The budget of tenants whose overrides set none; absent if there is none. */
  readonly defaultBudget?: Budget;
}

export type LogSettings = SettingsOf<typeof LOG>;

/** Whether a destination creates real invoices. */
export type BillingMode = 'test' | 'live';

/** One destination, from the environment or a BillingDestination. `Options`: of its type. */
export interface DestinationSettings<Options = unknown> {
  /** The spelling in ADAPTERS, or the name of the custom resource. Names the cursor. */
  readonly name: string;
  readonly type: DestinationType;
  readonly suspend: boolean;
  readonly startFrom: 'now' | 'earliest';
  /** Whether it creates real invoices, as configured; `test` by default. */
  readonly mode?: BillingMode;
  /** When a tenant's change of plan takes effect without a TenantOverride; `now` by default. */
  readonly planChange?: PlanChange;
  /** What happens to usage after the invoice of its time is final; `send` by default. */
  readonly late?: 'send' | 'next' | 'credit' | 'hold';
  readonly metrics?: MetricFilter;
  /** Verify the alerts of this billing system, in addition to those of the environment. */
  readonly webhookSecrets?: readonly Secret[];
  readonly options: Options;
}

/**
 * Metric codes. With `include` the destination receives only these, otherwise its own selection.
 * `exclude` overrides both.
 */
export interface MetricFilter {
  readonly include?: readonly string[];
  readonly exclude?: readonly string[];
}

/** The settings of one TenantOverride. */
export interface TenantOverrideSettings {
  readonly name: string;
  /** Creation time, ms since the epoch. Of two equally specific overrides the older wins. */
  readonly createdAt: number;
  readonly match: TenantMatch;
  readonly tenant?: string;
  readonly displayName?: string;
  readonly project?: string;
  readonly plan?: string;
  readonly planChange?: PlanChange;
  readonly tenantClass?: string;
  readonly exclude?: boolean;
  readonly enforcementExempt?: boolean;
  readonly billing?: BillingDetails;
  readonly budget?: Budget;
  readonly metering?: Partial<TenantMeteringSettings>;
}

/**
 * A tenant cluster by namespace and name, or by labels of its workload. These override labels of
 * its Namespace.
 */
export type TenantMatch =
  | { readonly kind: 'cluster'; readonly namespace: string; readonly name: string }
  | {
      readonly kind: 'labels';
      readonly matchLabels: Readonly<Record<string, string>>;
      readonly matchExpressions: readonly LabelRequirement[];
    };

export interface LabelRequirement {
  readonly key: string;
  readonly operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist';
  readonly values: readonly string[];
}

/** The settings of a MeteringPolicy. An absent one falls back to the environment. */
export type PolicySettings = {
  readonly [Part in Exclude<keyof typeof TABLE, 'prometheus'>]?: Partial<Settings[Part]>;
} & {
  readonly prometheus?: {
    readonly preset?: PrometheusSettings['preset'];
    /** Replaces all the environment's server settings: no other server gets its credentials. */
    readonly server?: Omit<PrometheusSettings, 'preset' | 'metricsFile' | 'bearerTokenFile'>;
  };
  readonly defaultBudget?: Budget;
  readonly portal?: PortalSettings;
  readonly focus?: FocusSettings;
};

/**
 * Holds the {@link Settings} in force: custom resources over environment over defaults. Every
 * change replaces the value as a unit.
 */
export interface SettingsStore {
  current(): Settings;
  /**
   * Calls the listener after every change; returns the function that unsubscribes. An unchanged
   * part, such as `tenantApi`, is the same object in both values.
   */
  subscribe(listener: (next: Settings, previous: Settings) => void): () => void;
  /** Sets the MeteringPolicy; undefined restores the environment's values. */
  setPolicy(policy: PolicySettings | undefined): void;
  /**
   * Sets a BillingDestination. It replaces a destination of the environment with the same name.
   * Undefined removes it.
   */
  setDestination(name: string, destination: DestinationSettings | undefined): void;
  setOverride(name: string, override: TenantOverrideSettings | undefined): void;
  setPriceBook(name: string, book: PriceBook | undefined): void;
}
