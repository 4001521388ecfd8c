import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import { sortedEntries } from '../model/bytewise.ts';
import type { Decimal } from '../model/decimal.ts';
import { deriveEventId } from '../model/event-id.ts';
import { type EventProperty, SCHEMA_VERSION, type UsageEvent } from '../model/event.ts';
import { eventProblem } from '../model/validate-event.ts';
import { formatInstant, type Window } from '../model/window.ts';
import type { Vector } from './query-answer.ts';

/** One metric that is measured by asking Prometheus. */
export interface Measure {
  /** The metric's code. */
  readonly metric: string;
  readonly unit: string;
  /** What to ask about a tenant cluster. */
  plan(subject: MeasuredCluster, window: Window): Plan;
  /** What the answer comes to. Rows that cannot be charged are named and cost only themselves. */
  read(answer: Answer, window: Window): Reading;
}

/** A tenant cluster, and what tells it from others in a query. */
export interface MeasuredCluster {
  readonly cluster: TenantCluster;
  /** A host namespace of its own that another tenant cluster shared during the window, if there was one. */
  readonly sharedNamespace?: string;
  /** No other tenant cluster had its name during the window. */
  readonly uniqueName: boolean;
}

export type Plan =
  /** Switched off for this tenant cluster. */
  | { readonly kind: 'off' }
  /** The query selects by a name that the tenant cluster does not have, so nothing is its own. */
  | { readonly kind: 'nameless'; readonly placeholder: string }
  /** It cannot be told what is this tenant cluster's: unknown, which is not zero. */
  | { readonly kind: 'unclear'; readonly reason: string }
  | {
      readonly kind: 'ask';
      readonly promql: string;
      /** Asked beside it; informational, so its failure costs nothing else. */
      readonly beside?: string;
      /** The name that the tenant cluster lacks for the query beside it, which is left out therefore. */
      readonly namelessBeside?: string;
      /** Asked of many tenant clusters at once; absent for queries that somebody wrote for each. */
      readonly shared?: SharedQuery;
      /** Its rows tell nothing until they are split, so it is asked as a shared query even by itself. */
      readonly onlyShared?: boolean;
    };

/** A question that one query answers for many tenant clusters, as each one's own query would answer it. */
export interface SharedQuery {
  /** The query about these, evaluated at the window's end. */
  promql(subjects: readonly MeasuredCluster[], window: Window): string;
  /** What of the rows is each one's, in the order of `subjects`; a reason where that cannot be told. */
  split(rows: Vector, subjects: readonly MeasuredCluster[]): readonly Answer[] | string;
}

/** What came back for a plan. */
export interface Answer {
  readonly rows: Vector;
  readonly beside?: Vector;
}

/** What the rows of a result come to, for one tenant cluster and window. */
export interface Reading {
  readonly charges: readonly MeasuredCharge[];
  /** Why rows were refused, `what: where: "input"` each. */
  readonly refused: readonly string[];
  /** How busy its GPUs were, those too that were not busy at all and so are no charge. */
  readonly utilization?: readonly GpuUtilization[];
}

/** The average of a tenant cluster's GPUs of one model over a window. */
export interface GpuUtilization {
  readonly gpuType: string;
  readonly percent: number;
  /** How many GPUs and instances that is the average of; 1 where nobody counts them. */
  readonly devices: number;
}

/** One amount; what tells it from the others is its sku and dimensions. */
export interface MeasuredCharge {
  readonly quantity: Decimal;
  readonly sku?: string;
  readonly dimensions?: Readonly<Record<string, string>>;
  readonly properties?: Readonly<Record<string, EventProperty>>;
}

interface EventContext {
  readonly window: Window;
  readonly region: string;
  readonly defaultTenantClass?: string | undefined;
  /** RFC 3339; not part of any identity. */
  readonly recordedAt: string;
  /** Asked late, after downtime or a failure. */
  readonly backfilled: boolean;
}

/**
 * The events of one metric of one tenant cluster in one window. Zeros are left out; a charge that
 * cannot be an event is refused with its reason.
 */
export function measuredEvents(
  measure: Pick<Measure, 'metric' | 'unit'>,
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
  { metric, unit }: Pick<Measure, 'metric' | 'unit'>,
  cluster: TenantCluster,
  context: EventContext,
): UsageEvent {
  const tenantClass = cluster.tenantClass ?? context.defaultTenantClass;
  const dimensions = {
    ...charge.dimensions,
    tenant_cluster: cluster.id,
    ...(tenantClass !== undefined && { tenant_class: tenantClass }),
  };
  const identity = {
    tenant: cluster.tenant,
    metric,
    window_start: formatInstant(context.window.start),
    window_end: formatInstant(context.window.end),
    region: context.region,
    ...(cluster.project !== undefined && { project: cluster.project }),
    ...(charge.sku !== undefined && { sku: charge.sku }),
    resource_id: cluster.id,
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
