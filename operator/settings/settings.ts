import type { Budget } from '../model/budget.ts';
import type { DestinationType } from '../model/destination-type.ts';
import type { PriceBook } from '../model/price-book.ts';
import type { Secret } from '../model/secret.ts';
import type { BillingDetails, PlanChange } from '../model/tenant.ts';
import type { IngestToken } from './parsers/credentials.ts';
import type { BillingState } from './parsers/enforcement-rules.ts';
import type { LedgerDatabase } from './parsers/ledger-url.ts';
import type { DISCOVERY, TENANT_API } from './table/discovery.ts';
import type { IDENTITY } from './table/identity.ts';
import type { METERING } from './table/metering.ts';
import type { ENFORCEMENT, HTTP, INGEST, LEDGER, LOG, PROMETHEUS, ROLES } from './table/service.ts';
import type { SettingsOf, SettingTable } from './table/setting.ts';
import type { TABLE } from './table/table.ts';

export { BILLING_STATES } from './parsers/enforcement-rules.ts';
export type { BillingState, IngestToken, LedgerDatabase };

export type Role = (typeof ROLES)[number];

/**
 * Everything the engine is configured with, as one immutable value that is swapped whole.
 * Where a value comes from: TenantOverride → MeteringPolicy → environment → default
 * (docs/reference/configuration.md#where-a-value-comes-from).
 * All durations are milliseconds.
 */
export interface Settings {
  readonly role: Role;
  readonly identity: IdentitySettings;
  readonly discovery: DiscoverySettings;
  readonly metering: MeteringSettings;
  readonly tenantApi: TenantApiSettings;
  readonly prometheus: PrometheusSettings;
  readonly ledger: LedgerSettings;
  readonly ingest: IngestSettings;
  readonly http: HttpSettings;
  readonly enforcement: EnforcementSettings;
  readonly billing: BillingSettings;
  readonly pricing: PricingSettings;
  readonly portal: PortalSettings;
  readonly log: LogSettings;
  /** Absent: nothing is told to a collector of OpenTelemetry. */
  readonly otlp?: OtlpSettings;
  /** In no particular order; discovery applies them. */
  readonly overrides: readonly TenantOverrideSettings[];
}

/** Where the operator's own metrics and traces go, by OTLP over HTTP. */
export interface OtlpSettings {
  /** Without the path of the signal, which is `/v1/metrics` or `/v1/traces`. */
  readonly endpoint: string;
  readonly headers: ReadonlyMap<string, Secret>;
  /** Between two reports of metrics. */
  readonly intervalMs: number;
}

export type IdentitySettings = SettingsOf<typeof IDENTITY>;

export type DiscoverySettings = SettingsOf<typeof DISCOVERY>;

/** All durations are milliseconds. */
export interface MeteringSettings extends SettingsOf<typeof METERING> {
  readonly capacityTypeLabel: string;
  /** Labels of a node that the provider gives to all private nodes of a tenant cluster; only a TenantOverride has them. */
  readonly ownNodeLabels?: Readonly<Record<string, string>>;
}

type OverrideField = `TenantOverride spec.metering.${string}`;
type Overridable<T extends SettingTable> = {
  [K in keyof T]: OverrideField & NonNullable<T[K]['fields']>[number] extends never ? never : K;
}[keyof T];

/** The metering settings that hold for one tenant cluster: those that a TenantOverride may change, and what its GPU hours count. */
export type TenantMeteringSettings = Pick<
  MeteringSettings,
  Overridable<typeof METERING> | 'gpuQuantity' | 'ownNodeLabels'
>;

export type TenantApiSettings = SettingsOf<typeof TENANT_API>;

export interface PrometheusSettings extends SettingsOf<typeof PROMETHEUS> {
  readonly url?: string;
  /** Name and password as `user:password`. */
  readonly basicAuth?: Secret;
  readonly bearerToken?: Secret;
  readonly headers: ReadonlyMap<string, Secret>;
  readonly bearerTokenFile?: string;
  /** Why a credential that belongs to the URL cannot be had: nothing is asked until it can, and what is missed is asked later. */
  readonly credentialProblem?: string;
}

export interface LedgerSettings extends SettingsOf<typeof LEDGER> {
  /** Absent while the ledger is in `dataDir`. */
  readonly database?: LedgerDatabase;
  /** Further ones, which only a hub has. */
  readonly furtherDatabases?: readonly LedgerDatabase[];
}

/** When an append is acknowledged: after a synchronous standby has it, or after the one server. */
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

/** How the tenants' portal looks, and where it may be embedded (docs/how-to/portal.md). */
export interface PortalSettings {
  /** In place of `Usage`. */
  readonly name?: string;
  /** A `data:` URI of an SVG or PNG picture in base64. */
  readonly logo?: string;
  /** Of links, buttons and bars, `#rrggbb`: on light ground, and on dark. */
  readonly colors?: { readonly light?: string; readonly dark?: string };
  /** Origins whose pages may embed it. */
  readonly frameAncestors: readonly string[];
}

export interface EnforcementSettings extends SettingsOf<typeof ENFORCEMENT> {
  /** What verifies the alerts of each billing system that sends some; empty means that they are not accepted. */
  readonly webhookSecrets: Readonly<Record<DestinationType, readonly Secret[]>>;
}

export interface BillingSettings {
  /** The destinations named in ADAPTERS, complete with what they need. */
  readonly destinations: readonly DestinationSettings[];
  readonly defaultPlanCode: string;
  readonly currency: string;
}

export interface PricingSettings {
  /** One for each plan that has prices, sorted by name. */
  readonly books: readonly PriceBook[];
  /** Of tenants that no override gives one; absent where they have none. */
  readonly defaultBudget?: Budget;
}

export type LogSettings = SettingsOf<typeof LOG>;

/** Whether a destination bills for real. */
export type BillingMode = 'test' | 'live';

/** One destination, from the environment or from a BillingDestination. `Options` are those of its type. */
export interface DestinationSettings<Options = unknown> {
  /** The user's spelling, or the name of the custom resource; names the cursor. */
  readonly name: string;
  readonly type: DestinationType;
  readonly suspend: boolean;
  readonly startFrom: 'now' | 'earliest';
  /** Whether it bills for real, as whoever configured it says; `test` unless told otherwise. */
  readonly mode?: BillingMode;
  /** When a tenant's change of plan is made that says nothing of its own; `now` unless told otherwise. */
  readonly planChange?: PlanChange;
  /** What becomes of usage that comes after the invoice of its time is final; `send` unless told otherwise. */
  readonly late?: 'send' | 'next' | 'credit' | 'hold';
  readonly metrics?: MetricFilter;
  /** Verify the alerts of this billing system, beside those of the environment. */
  readonly webhookSecrets?: readonly Secret[];
  readonly options: Options;
}

/**
 * Metric codes. With `include` the destination gets these and no others, without it those of its own
 * choice; `exclude` wins over both.
 */
export interface MetricFilter {
  readonly include?: readonly string[];
  readonly exclude?: readonly string[];
}

/** What one TenantOverride says. */
export interface TenantOverrideSettings {
  readonly name: string;
  /** Creation, milliseconds since the epoch: of two overrides of equal specificity the older one holds. */
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

/** A tenant cluster by namespace and name, or by labels of its workload (which win over its Namespace's). */
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

/** The settings that a MeteringPolicy gives; an absent one falls back to the environment. */
export type PolicySettings = {
  readonly [Part in Exclude<keyof typeof TABLE, 'prometheus'>]?: Partial<Settings[Part]>;
} & {
  readonly prometheus?: {
    readonly preset?: PrometheusSettings['preset'];
    /** In place of all that the environment says of the server: its credentials are not sent to another one. */
    readonly server?: Omit<PrometheusSettings, 'preset' | 'metricsFile' | 'bearerTokenFile'>;
  };
  readonly defaultBudget?: Budget;
  readonly portal?: PortalSettings;
};

/**
 * Holds the one {@link Settings} value in force and lays the layers over each other:
 * custom resources over environment over defaults. Every change swaps the value whole.
 */
export interface SettingsStore {
  current(): Settings;
  /**
   * Told after every swap; returns the function that ends the subscription. A part of the settings that
   * has not changed, such as `tenantApi`, is the same object in both.
   */
  subscribe(listener: (next: Settings, previous: Settings) => void): () => void;
  /** What the MeteringPolicy says; undefined gives its fields back to the environment. */
  setPolicy(policy: PolicySettings | undefined): void;
  /** A BillingDestination; it replaces a destination of the same name out of the environment. Undefined removes it. */
  setDestination(name: string, destination: DestinationSettings | undefined): void;
  setOverride(name: string, override: TenantOverrideSettings | undefined): void;
  setPriceBook(name: string, book: PriceBook | undefined): void;
}
