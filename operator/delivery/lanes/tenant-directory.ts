import type { RecordChange } from '../../ledger/ledger.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { Tenant } from '../../model/tenant.ts';
import type { DeliveryRecords } from '../records/delivery-records.ts';

/**
 * A tenant as a destination is provisioned with it: as discovery knows it, else as it was provisioned
 * last (also by an earlier process), else as far as an event tells.
 */
export interface TenantDirectory {
  /** The tenant of an event that is to be sent. */
  ofEvent(event: UsageEvent): Promise<Tenant>;
  /** The tenant as discovery knows it; undefined when it does not. */
  current(tenant: string): Tenant | undefined;
  find(tenant: string): Promise<Tenant>;
  /** The tenant as it would be provisioned without an event: one that was served before. */
  asServed(tenant: string): Promise<Tenant>;
  /** The destination has been provisioned with it; the change is to be written. */
  provisioned(tenant: Tenant): RecordChange;
  forget(tenant: string): void;
}

export function createTenantDirectory(
  records: DeliveryRecords,
  tenants: TenantSource,
  maxBackfillMs: () => number,
): TenantDirectory {
  const lastProvisioned = new Map<string, Tenant>();
  const lookUp = async (id: string): Promise<Tenant | undefined> =>
    lastProvisioned.get(id) ?? (await records.tenant(id));
  const recorded = async (id: string): Promise<Tenant | undefined> => tenants.recorded?.(id);

  return {
    ofEvent: async (event) => {
      const known = await lookUp(event.tenant);
      const { tenant: id } = event;
      const tenant = tenants.find(id) ?? known ?? (await recorded(id)) ?? tenantOfEvent(event);
      const merged = withBillableFrom(tenant, known?.billableFrom);
      return { ...merged, billableFrom: billableFrom(merged, event, maxBackfillMs()) };
    },
    current: (id) => {
      const tenant = tenants.find(id);
      if (tenant === undefined) return undefined;
      return withBillableFrom(tenant, lastProvisioned.get(id)?.billableFrom);
    },
    find: async (id) =>
      tenants.find(id) ?? (await lookUp(id)) ?? (await recorded(id)) ?? unknownTenant(id),
    asServed: async (id) => {
      const known = await lookUp(id);
      const tenant = tenants.find(id) ?? known ?? (await recorded(id)) ?? unknownTenant(id);
      return withBillableFrom(tenant, known?.billableFrom);
    },
    provisioned: (tenant) => {
      lastProvisioned.set(tenant.id, tenant);
      return records.putTenant(tenant);
    },
    forget: (id) => void lastProvisioned.delete(id),
  };
}

function withBillableFrom(tenant: Tenant, billableFrom: number | undefined): Tenant {
  return billableFrom === undefined ? tenant : { ...tenant, billableFrom };
}

/** The tenants that discovery knows. */
export interface TenantSource {
  find(id: string): Tenant | undefined;
  /** One that another process has discovered, and this one perhaps not yet. */
  recorded?(id: string): Promise<Tenant | undefined>;
  /** The listener is called after every change; returns the function that ends the subscription. */
  subscribe(listener: () => void): () => void;
  /** Tells, as of this moment, whether usage of a tenant may still come, since some of it could not be measured yet. */
  openGaps?(): (id: string) => boolean;
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
