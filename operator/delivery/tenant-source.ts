import type { Tenant } from '../model/tenant.ts';
import type { UsageEvent } from '../model/event.ts';

/** The tenants that discovery knows. */
export interface TenantSource {
  find(id: string): Tenant | undefined;
  /** Told after every change; returns the function that ends the subscription. */
  subscribe(listener: () => void): () => void;
  /** Whether usage of the tenant may still come, since some of it could not be measured yet. */
  hasOpenGaps?(id: string): boolean;
}

/** A tenant that discovery does not know, as far as an event tells: usage may be pushed in for anybody. */
export function tenantOfEvent({ tenant, region = '' }: UsageEvent): Tenant {
  return { ...unknownTenant(tenant), region };
}

/** A tenant of which nothing but the id is known, not even since when it exists. */
export function unknownTenant(id: string): Tenant {
  return { id, displayName: id, region: '', clusters: [], createdAt: 0 };
}

/**
 * The earliest window start that may have to be billed: the tenant's creation, but no earlier than
 * backfill could reach back from its first event, and never after that event.
 */
export function billableFrom(tenant: Tenant, event: UsageEvent, maxBackfillMs: number): number {
  const first = Date.parse(event.window_start);
  const known = tenant.billableFrom ?? Number.POSITIVE_INFINITY;
  return Math.min(first, known, Math.max(tenant.createdAt, first - maxBackfillMs));
}

/** What makes a tenant worth provisioning again when it changes. */
export function tenantFingerprint(tenant: Tenant): string {
  return JSON.stringify({ ...tenant, billableFrom: undefined });
}
