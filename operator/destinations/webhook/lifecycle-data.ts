import type { MetricDefinition } from '../../model/catalog.ts';
import type { Tenant } from '../../model/tenant.ts';

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
    stripe_customer_id: tenant.stripeCustomerId,
    metronome_customer_id: tenant.metronomeCustomerId,
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
