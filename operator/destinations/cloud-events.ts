import type { MetricDefinition } from '../model/catalog.ts';
import { encodeEvent, type UsageEvent } from '../model/event.ts';
import type { Tenant } from '../model/tenant.ts';
import type { BudgetNotice } from '../model/budget-notice.ts';
import { quote } from '../model/quote.ts';

/** Prefix of event types. Each metric has its own: one meter at the receiver, one metric. */
const TYPE_PREFIX = 'io.meterfeed.';
const DATA_TYPE = 'application/json';
/** Characters that RFC 3986 allows. CloudEvents readers refuse a batch because of a bad source. */
const URI_REFERENCE = /^[A-Za-z0-9\-._~:/?#[\]@!$&'()*+,;=%]+$/;

/** The attributes of a lifecycle event; `data` is any JSON value. */
export interface LifecycleEvent {
  readonly id: string;
  readonly source: string;
  readonly type: 'tenant.v1' | 'tenant.offboarded.v1' | 'catalog.v1' | 'budget.v1.threshold';
  readonly subject: string;
  /** Milliseconds since the epoch. */
  readonly time: number;
  readonly data: unknown;
}

/** An event of CloudEvents 1.0 without extension attributes. */
export interface CloudEvent {
  readonly attributes: Readonly<Record<string, string>>;
  /** JSON. */
  readonly data: string;
}

/** Returns a usage event as a CloudEvent. `data` is the event, with its quantity as a number. */
export function usageCloudEvent(event: UsageEvent, source: string): CloudEvent {
  const attributes = {
    specversion: '1.0',
    id: event.id,
    source,
    type: `${TYPE_PREFIX}usage.v1.${event.metric}`,
    subject: event.tenant,
    time: event.window_start,
    datacontenttype: DATA_TYPE,
  };
  return { attributes, data: encodeEvent(event) };
}

/** Returns a lifecycle event as a CloudEvent. */
export function lifecycleCloudEvent(event: LifecycleEvent): CloudEvent {
  const attributes = {
    specversion: '1.0',
    id: event.id,
    source: event.source,
    type: `${TYPE_PREFIX}${event.type}`,
    subject: event.subject,
    time: new Date(event.time).toISOString(),
    datacontenttype: DATA_TYPE,
  };
  return { attributes, data: JSON.stringify(event.data) };
}

/** Encodes an event as one JSON object: the structured form, and an element of a batch. */
export function structuredEvent({ attributes, data }: CloudEvent): string {
  return `${JSON.stringify(attributes).slice(0, -1)},"data":${data}}`;
}

/** Returns why a text cannot be the source of CloudEvents; undefined when it can. */
export function sourceProblem(source: string): string | undefined {
  if (URI_REFERENCE.test(source)) return undefined;
  return `not a URI reference: CLUSTER_NAME: ${quote(source)}`;
}

/** Returns the `data` of `io.meterfeed.tenant.v1` and `io.meterfeed.tenant.offboarded.v1`. */
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

/** Returns the `data` of `io.meterfeed.catalog.v1`: the metrics of GET /api/v1/catalog. */
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

/** Returns the `data` of `io.meterfeed.budget.v1.threshold` (docs/how-to/budgets.md#thresholds). */
export function noticeData(notice: BudgetNotice): Record<string, unknown> {
  const { tenant, percent, amount, counts, period, periodStart, at } = notice;
  return {
    tenant,
    percent,
    amount,
    ...(counts.kind === 'money' ? { currency: counts.currency } : { metric: counts.metric }),
    period,
    ...(periodStart !== undefined && { period_start: new Date(periodStart).toISOString() }),
    reached_at: new Date(at).toISOString(),
  };
}
