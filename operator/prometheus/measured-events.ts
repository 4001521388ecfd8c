import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import { sortedEntries } from '../model/bytewise.ts';
import { deriveEventId } from '../model/event-id.ts';
import { SCHEMA_VERSION, type UsageEvent } from '../model/event.ts';
import { eventProblem } from '../model/validate-event.ts';
import { formatInstant, type Window } from '../model/window.ts';
import type { Measure, MeasuredCharge, Reading } from './measure.ts';

export interface EventContext {
  readonly window: Window;
  readonly region: string;
  readonly defaultTenantClass?: string | undefined;
  /** RFC 3339; not part of any identity. */
  readonly recordedAt: string;
  /** Asked late, after downtime or a failure (spec 1, rule 6). */
  readonly backfilled: boolean;
}

/**
 * The events of one metric of one tenant cluster in one window. Zeros are left out (design 8); a charge
 * that cannot be an event is refused with its reason.
 */
export function measuredEvents(
  { metric, unit }: Pick<Measure, 'metric' | 'unit'>,
  cluster: TenantCluster,
  reading: Reading,
  context: EventContext,
): { readonly events: readonly UsageEvent[]; readonly refused: readonly string[] } {
  const events: UsageEvent[] = [];
  const refused = [...reading.refused];
  for (const charge of reading.charges) {
    if (charge.quantity === '0') continue;
    const event = eventOf(charge, metric, unit, cluster, context);
    const problem = eventProblem(event);
    if (problem === undefined) events.push(event);
    else refused.push(problem);
  }
  return { events, refused };
}

function eventOf(
  charge: MeasuredCharge,
  metric: string,
  unit: string,
  cluster: TenantCluster,
  context: EventContext,
): UsageEvent {
  const tenantClass = cluster.tenantClass ?? context.defaultTenantClass;
  const dimensions = {
    ...charge.dimensions,
    tenant_cluster: cluster.id,
    ...(tenantClass === undefined ? {} : { tenant_class: tenantClass }),
  };
  const identity = {
    tenant: cluster.tenant,
    metric,
    window_start: formatInstant(context.window.start),
    window_end: formatInstant(context.window.end),
    region: context.region,
    ...(cluster.project === undefined ? {} : { project: cluster.project }),
    ...(charge.sku === undefined ? {} : { sku: charge.sku }),
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
