import type { Budget } from '../model/budget.ts';
import type { DestinationType } from '../model/destination-type.ts';
import type { PriceBook } from '../model/price-book.ts';
import type { Secret } from '../model/secret.ts';
import type { BillingDetails, PlanChange } from '../model/tenant.ts';
import type { TenantSourceName } from '../model/tenant-sources.ts';

/** What a process is in a fleet (docs/fleet.md). */
export const ROLES = ['meter', 'hub', 'all'] as const;
export type Role = (typeof ROLES)[number];

/**
 * Everything the engine is configured with, as one immutable value that is swapped whole.
 * Where a value comes from: TenantOverride → MeteringPolicy → environment → default
 * (docs/configuration.md#where-a-value-comes-from).
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

export interface IdentitySettings {
  readonly region: string;
  readonly clusterName: string;
  readonly zone?: string;
  readonly regionFromNode: boolean;
  readonly defaultTenantClass?: string;
  readonly tenantSource: 'cluster' | 'project';
  /** The real value of `{label_prefix}`, `meterfeed.io` by default. */
  readonly labelPrefix: string;
}

export interface DiscoverySettings {
  readonly reconcileIntervalMs: number;
  readonly offboardGraceMs: number;
  readonly platformCluster?: string;
  readonly trustPlatformMetadata: boolean;
  readonly trustWorkloadMetadata: boolean;
  /** Namespaces to scan; empty means all. */
  readonly watchNamespaces: readonly string[];
  /** The kinds of tenants that are looked for. */
  readonly sources: readonly TenantSourceName[];
  /**
   * Keys of labels and annotations that name the tenant of a Namespace, the first that has a value wins; empty
   * means `<LABEL_PREFIX>/tenant` (docs/tenants/namespaces.md#which-key).
   */
  readonly namespaceTenantKeys: readonly string[];
}

/** What may differ per tenant is in {@link TenantMeteringSettings}. */
export interface MeteringSettings extends TenantMeteringSettings {
  /** COLLECTION_INTERVAL: the window size. */
  readonly windowMs: number;
  readonly maxBackfillMs: number;
  /** A window closes at its end plus this delay (docs/metering.md#windows). */
  readonly settlingDelayMs: number;
  readonly gpuResources: readonly string[];
  readonly skuLabel?: string;
  readonly capacityTypeLabel: string;
  readonly unhealthyNodeTaints: readonly string[];
  /** `key=%s`, `%s` being the tenant cluster's name. */
  readonly dedicatedNodeLabel?: string;
  readonly watchDeletions: boolean;
  readonly draGpuDrivers: readonly string[];
  readonly customMetrics: readonly CustomMetricSetting[];
  /** Alarms are raised where own nodes say that they were down for more of a day. */
  readonly ownNodeDowntimePercent: number;
}

/** The metering settings that a TenantOverride may change for one tenant cluster. */
export interface TenantMeteringSettings {
  readonly cpuMemoryBasis: 'usage' | 'requests' | 'max';
  readonly meterControlPlane: boolean;
  readonly meterByNamespace: boolean;
  readonly meterByQueue: boolean;
  /** What GPU hours count: GPU-equivalents, or devices however small each is (docs/metering.md#gpus-counted-as-devices). */
  readonly gpuQuantity: 'equivalents' | 'devices';
  readonly privateNodeBilling: 'node' | 'usage';
  /** Whose word counts about what own nodes are and whether they are up (docs/metering.md#whose-word-counts). */
  readonly ownNodeTrust: 'tenant' | 'provider';
  /** Own nodes of a tenant cluster that a window bills; more are held (docs/metering.md#more-own-nodes-than-are-billed). */
  readonly maxOwnNodes: number;
  /** What the provider says of all own nodes of the tenant cluster, as labels of a node. */
  readonly ownNodeLabels?: Readonly<Record<string, string>>;
  readonly excludeNamespaces: readonly string[];
  /** `running`: from the first container start; `scheduled`: from binding (docs/metering.md#pods). */
  readonly podLifetime: 'running' | 'scheduled';
  /** PromQL templates; absent means the built-in one, the text `none` switches the query off. */
  readonly egressQuery?: string;
  readonly gpuUtilQuery?: string;
  readonly gpuCountQuery?: string;
}

/** One entry of CUSTOM_METRICS, `code:unit[:key|key]`. */
export interface CustomMetricSetting {
  readonly code: string;
  readonly unit: string;
  readonly dimensions: readonly string[];
}

export interface TenantApiSettings {
  readonly enabled: boolean;
  readonly kubeconfigSecret: string;
  readonly adminFallback: boolean;
  readonly clustersFile?: string;
  readonly allowedHosts: readonly string[];
}

export interface PrometheusSettings {
  readonly url?: string;
  /** Name and password as `user:password`. */
  readonly basicAuth?: Secret;
  readonly bearerToken?: Secret;
  readonly headers: ReadonlyMap<string, Secret>;
  readonly bearerTokenFile?: string;
  /** Why a credential that belongs to the URL cannot be had: nothing is asked until it can, and what is missed is asked later. */
  readonly credentialProblem?: string;
  readonly preset: 'default' | 'vcluster-platform';
  readonly metricsFile?: string;
}

export interface LedgerSettings {
  readonly dataDir: string;
  readonly retentionMs: number;
  readonly durability: LedgerDurability;
  /** Absent while the ledger is in `dataDir`. */
  readonly database?: LedgerDatabase;
  /** Further ones, which only a hub has. */
  readonly furtherDatabases?: readonly LedgerDatabase[];
  /** A file with the URL of the database, read at start. */
  readonly databaseFile?: string;
}

/** A PostgreSQL database that the ledger is kept in. */
export interface LedgerDatabase {
  readonly host: string;
  readonly port: number;
  /** Of the database. */
  readonly name: string;
  readonly user: string;
  readonly password?: Secret;
  readonly tls: {
    /** `require` encrypts without looking at who answers. */
    readonly mode: 'disable' | 'require' | 'verify-full';
    /** Certificates to believe, PEM; those of Node when absent. */
    readonly caFile?: string;
  };
}

/** When an append is acknowledged: after a synchronous standby has it, or after the one server. */
export type LedgerDurability = 'standby' | 'storage';

/** What becomes of usage that is pushed in. */
export interface IngestSettings {
  /** Usage of tenants that nobody knows is held until somebody decides, or makes customers of them at once. */
  readonly unknownTenants: 'hold' | 'create';
}

/** A token of `POST /api/v1/events` and what may be pushed with it; everything where there is no list. */
export interface IngestToken {
  readonly token: Secret;
  /** Codes of the catalogue. */
  readonly metrics?: readonly string[];
  readonly tenants?: readonly string[];
}

export interface HttpSettings {
  /** `''` listens on all addresses. */
  readonly host: string;
  readonly port: number;
  /** Where the probes are served as well; absent where they have no port of their own. */
  readonly probe?: { readonly host: string; readonly port: number };
  readonly apiTokens: readonly Secret[];
  /** Holds more of them, one a line, and is read again when it changes. */
  readonly apiTokenFile?: string;
  /** INGEST_TOKEN, else API_TOKEN; empty means that ingest is disabled. */
  readonly ingestTokens: readonly IngestToken[];
  /** INGEST_TOKEN_FILE, else API_TOKEN_FILE where there is no INGEST_TOKEN either. */
  readonly ingestTokenFile?: string;
  /** What signs the tokens of the tenants' portal, PEM: the first signs, all are good. There is no portal without any. */
  readonly portalKeys: readonly Secret[];
  /** Holds more of them, in front of those, and is read again when it changes. */
  readonly portalKeysFile?: string;
}

/** How the tenants' portal looks, and where it may be embedded (docs/portal.md). */
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

export interface EnforcementSettings {
  readonly mode: 'observe' | 'annotate' | 'enforce';
  readonly rules: ReadonlyMap<string, BillingState>;
  /** Ids of tenants whose pods are never refused, whoever says what. */
  readonly neverSuspend: readonly string[];
  /** What verifies the alerts of each billing system that sends some; empty means that they are not accepted. */
  readonly webhookSecrets: Readonly<Record<DestinationType, readonly Secret[]>>;
}

/** What is known of how a tenant pays, from the least to the most severe (docs/enforcement.md#states). */
export const BILLING_STATES = ['active', 'warning', 'delinquent', 'suspended'] as const;
export type BillingState = (typeof BILLING_STATES)[number];

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

export interface LogSettings {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly format: 'json' | 'text';
}

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

/** The settings that a MeteringPolicy may give; an absent field falls back to the environment. */
export interface PolicySettings {
  readonly identity?: Partial<
    Pick<IdentitySettings, 'zone' | 'defaultTenantClass' | 'tenantSource' | 'regionFromNode'>
  >;
  readonly discovery?: Partial<DiscoverySettings>;
  readonly metering?: Partial<MeteringSettings>;
  readonly tenantApi?: Partial<Omit<TenantApiSettings, 'clustersFile'>>;
  readonly prometheus?: {
    readonly preset?: PrometheusSettings['preset'];
    /** In place of all that the environment says of the server: its credentials are not sent to another one. */
    readonly server?: Omit<PrometheusSettings, 'preset' | 'metricsFile' | 'bearerTokenFile'>;
  };
  readonly ledger?: Partial<Pick<LedgerSettings, 'retentionMs'>>;
  readonly ingest?: Partial<IngestSettings>;
  readonly enforcement?: Partial<Pick<EnforcementSettings, 'mode' | 'rules' | 'neverSuspend'>>;
  readonly log?: Partial<Pick<LogSettings, 'level'>>;
  readonly defaultBudget?: Budget;
  readonly portal?: PortalSettings;
}

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
