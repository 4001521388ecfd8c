import type { MetricDefinition } from '../../model/catalog.ts';
import { encodeEvent, type UsageEvent } from '../../model/event.ts';
import type { Tenant } from '../../model/tenant.ts';

/** The media type of a CloudEvents batch; receivers compare it as text, so it carries no parameters. */
export const CLOUD_EVENTS_BATCH = 'application/cloudevents-batch+json';

/** Event types: one for each metric, so that a meter at the receiver maps to one metric. */
const TYPE_PREFIX = 'io.meterfeed.';

/** The attributes of a lifecycle event; `data` is any JSON value. */
export interface LifecycleEvent {
  readonly id: string;
  readonly source: string;
  readonly type: 'tenant.v1' | 'tenant.offboarded.v1' | 'catalog.v1';
  readonly subject: string;
  /** Milliseconds since the epoch. */
  readonly time: number;
  readonly data: unknown;
}

/**
 * A usage event as one element of a batch: CloudEvents 1.0 without extension attributes, `data` being
 * the event itself with its quantity as a bare number (docs/destinations/webhook.md#what-is-sent).
 */
export function usageCloudEvent(event: UsageEvent, source: string): string {
  const attributes = {
    specversion: '1.0',
    id: event.id,
    source,
    type: `${TYPE_PREFIX}usage.v1.${event.metric}`,
    subject: event.tenant,
    time: event.window_start,
    datacontenttype: 'application/json',
  };
  return withData(attributes, encodeEvent(event));
}

/** A lifecycle event as one element of a batch. */
export function lifecycleCloudEvent(event: LifecycleEvent): string {
  const attributes = {
    specversion: '1.0',
    id: event.id,
    source: event.source,
    type: `${TYPE_PREFIX}${event.type}`,
    subject: event.subject,
    time: new Date(event.time).toISOString(),
    datacontenttype: 'application/json',
  };
  return withData(attributes, JSON.stringify(event.data));
}

/** The body of a batch of encoded elements. */
export function batchBody(elements: readonly string[]): string {
  return `[${elements.join(',')}]`;
}

function withData(attributes: Readonly<Record<string, string>>, data: string): string {
  return `${JSON.stringify(attributes).slice(0, -1)},"data":${data}}`;
}

/** The `data` of `io.meterfeed.tenant.v1` and `io.meterfeed.tenant.offboarded.v1`. */
export function tenantData(tenant: Tenant): Record<string, unknown> {
  return {
    tenant: tenant.id,
    display_name: tenant.displayName,
    email: tenant.email,
    project: tenant.project,
    tenant_class: tenant.tenantClass,
    plan: tenant.plan,
    currency: tenant.currency,
    cost_center: tenant.costCenter,
    ...Object.fromEntries(
      Object.entries(tenant.customerIds ?? {}).map(([type, id]) => [`${type}_customer_id`, id]),
    ),
    region: tenant.region,
    tenant_clusters: tenant.clusters,
  };
}

/** The `data` of `io.meterfeed.catalog.v1`: the metrics as GET /api/v1/catalog lists them. */
export function catalogData(catalog: readonly MetricDefinition[]): Record<string, unknown> {
  const metrics = catalog.map((metric) => ({
    code: metric.code,
    name: metric.name,
    unit: metric.unit,
    aggregation_field: metric.aggregationField,
    source: metric.source,
    dimensions: metric.dimensions,
  }));
  return { metrics };
}
