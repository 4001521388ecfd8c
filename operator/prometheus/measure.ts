import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import { sortedEntries } from '../model/bytewise.ts';
import type { Decimal } from '../model/decimal.ts';
import { deriveEventId } from '../model/event-id.ts';
import { type EventProperty, SCHEMA_VERSION, type UsageEvent } from '../model/event.ts';
import { eventProblem } from '../model/validate-event.ts';
import { formatInstant, type Window } from '../model/window.ts';
import type { Vector } from './query-answer.ts';

/** One metric that is measured by querying Prometheus. */
export interface Measure {
  readonly metric: string;
  readonly unit: string;
  /** The usage belongs to the tenant: its events name no tenant cluster, class or project. */
  readonly ofTenant?: true;
  /** The query about a tenant cluster. */
  plan(subject: MeasuredCluster, window: Window): Plan;
  /** Reads an answer. A row that cannot be charged is reported and affects no other row. */
  read(answer: QueryResult, window: Window): Reading;
}

/** A tenant cluster, and what separates it from others in a query. */
export interface MeasuredCluster {
  readonly cluster: TenantCluster;
  /** Its host namespace that another tenant cluster shared during the window, if any. */
  readonly sharedNamespace?: string;
  /** No other tenant cluster had its name during the window. */
  readonly uniqueName: boolean;
  /**
   * Every tenant of the window, with the first of its tenant clusters by id. That one stands for
   * the tenant where a query names tenants.
   */
  readonly firstClusters: ReadonlyMap<string, string>;
}

export type Plan =
  | { readonly kind: 'off' }
  /** The query selects by a name that the tenant cluster lacks: it has no usage there. */
  | { readonly kind: 'nameless'; readonly placeholder: string }
  /** The usage of this tenant cluster cannot be separated: unknown, which is not zero. */
  | { readonly kind: 'unclear'; readonly reason: string }
  | {
      readonly kind: 'query';
      readonly promql: string;
      /** Second query, sent with the first. Informational: its failure affects nothing else. */
      readonly beside?: string;
      /** The missing name because of which the second query is left out. */
      readonly namelessBeside?: string;
      /** Combines the query for many tenant clusters; absent for custom queries. */
      readonly shared?: SharedQuery;
      /** Its rows must be split first: it is a shared query even for one tenant cluster. */
      readonly onlyShared?: boolean;
    };

/** A query that covers many tenant clusters, with the same result as each one's own query. */
export interface SharedQuery {
  /**
   * The query about these tenant clusters, evaluated at the window's end. Absent if each one's own
   * query covers all: a query for fewer of them would be no smaller.
   */
  promql?(subjects: readonly MeasuredCluster[], window: Window): string;
  /**
   * Splits the rows: for each of `subjects`, in order, its answer or why it has none. Or why no row
   * can be split.
   */
  split(
    rows: Vector,
    subjects: readonly MeasuredCluster[],
  ): readonly (QueryResult | string)[] | string;
  /** Why rows belong to nobody, whatever `subjects` are, `what: where: "input"` each. */
  strangers?(rows: Vector, subjects: readonly MeasuredCluster[]): readonly string[];
}

/** The result of a plan. */
export interface QueryResult {
  readonly rows: Vector;
  readonly beside?: Vector;
}

/** What the rows of a result mean for one tenant cluster and window. */
export interface Reading {
  readonly charges: readonly MeasuredCharge[];
  /** Why rows were refused, `what: where: "input"` each. */
  readonly refused: readonly string[];
  /** Utilisation of its GPUs, including idle ones, which are no charge. */
  readonly utilization?: readonly GpuUtilization[];
}

/** Average of a tenant cluster's GPUs of one model over a window. */
export interface GpuUtilization {
  readonly gpuType: string;
  readonly percent: number;
  /** How many GPUs and instances the average covers; 1 if there is no count. */
  readonly devices: number;
}

/** One amount. Its sku and dimensions separate it from the others. */
export interface MeasuredCharge {
  readonly quantity: Decimal;
  readonly sku?: string;
  readonly dimensions?: Readonly<Record<string, string>>;
  readonly properties?: Readonly<Record<string, EventProperty>>;
}

interface EventContext {
  readonly window: Window;
  readonly region: string;
  readonly defaultTenantClass?: string;
  /** RFC 3339; not part of any identity. */
  readonly recordedAt: string;
  /** Queried late, after downtime or a failure. */
  readonly backfilled: boolean;
}

/**
 * The events of one metric of one tenant cluster in one window. Zeros are left out. A charge that
 * cannot be an event is refused with its reason.
 */
export function measuredEvents(
  measure: Pick<Measure, 'metric' | 'unit' | 'ofTenant'>,
  cluster: TenantCluster,
  reading: Reading,
  context: EventContext,
): { readonly events: readonly UsageEvent[]; readonly refused: readonly string[] } {
  const events: UsageEvent[] = [];
  const refused = [...reading.refused];
  for (const charge of reading.charges) {
    if (charge.quantity === '0') continue;
    const event = eventOf(charge, measure, cluster, context);
    const problem = eventProblem(event);
    if (problem === undefined) events.push(event);
    else refused.push(problem);
  }
  return { events, refused };
}

function eventOf(
  charge: MeasuredCharge,
  { metric, unit, ofTenant }: Pick<Measure, 'metric' | 'unit' | 'ofTenant'>,
  cluster: TenantCluster,
  context: EventContext,
): UsageEvent {
  const tenantClass = cluster.tenantClass ?? context.defaultTenantClass;
  const dimensions = {
    ...charge.dimensions,
    ...(!ofTenant && {
      tenant_cluster: cluster.id,
      ...(tenantClass !== undefined && { tenant_class: tenantClass }),
    }),
  };
  const identity = {
    tenant: cluster.tenant,
    metric,
    window_start: formatInstant(context.window.start),
    window_end: formatInstant(context.window.end),
    region: context.region,
    ...(!ofTenant && cluster.project !== undefined && { project: cluster.project }),
    ...(charge.sku !== undefined && { sku: charge.sku }),
    ...(!ofTenant && { resource_id: cluster.id }),
    dimensions: Object.fromEntries(sortedEntries(dimensions)),
  };
  const properties = { ...charge.properties, ...(context.backfilled ? { backfilled: true } : {}) };
  return {
    schema_version: SCHEMA_VERSION,
    id: deriveEventId(identity),
    quantity: charge.quantity,
    unit,
    recorded_at: context.recordedAt,
    source: 'collector',
    ...identity,
    ...(Object.keys(properties).length === 0 ? {} : { properties }),
  };
}
