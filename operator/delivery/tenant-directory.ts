import type { Tenant } from '../model/tenant.ts';
import type { RecordChange } from '../ledger/ledger.ts';
import type { UsageEvent } from '../model/event.ts';
import type { DeliveryRecords } from './delivery-records.ts';
import { billableFrom, tenantOfEvent, type TenantSource, unknownTenant } from './tenant-source.ts';

/**
 * Tenants as a destination is to be told of them: as discovery knows them, else as the destination was
 * told last (also by an earlier process), else as far as an event tells.
 */
export interface TenantDirectory {
  /** The tenant of an event that is to be sent. */
  ofEvent(event: UsageEvent): Promise<Tenant>;
  /** The tenant as discovery knows it; undefined when it does not. */
  current(tenant: string): Tenant | undefined;
  find(tenant: string): Promise<Tenant>;
  /** The destination was told; the change is to be written. */
  told(tenant: Tenant): RecordChange;
  forget(tenant: string): void;
}

export function createTenantDirectory(
  records: DeliveryRecords,
  tenants: TenantSource,
  maxBackfillMs: () => number,
): TenantDirectory {
  const lastTold = new Map<string, Tenant>();
  const lookUp = async (id: string): Promise<Tenant | undefined> =>
    lastTold.get(id) ?? (await records.tenant(id));

  return {
    ofEvent: async (event) => {
      const told = await lookUp(event.tenant);
      const tenant = tenants.find(event.tenant) ?? told ?? tenantOfEvent(event);
      const merged = withBillableFrom(tenant, told?.billableFrom);
      return { ...merged, billableFrom: billableFrom(merged, event, maxBackfillMs()) };
    },
    current: (id) => {
      const tenant = tenants.find(id);
      if (tenant === undefined) return undefined;
      return withBillableFrom(tenant, lastTold.get(id)?.billableFrom);
    },
    find: async (id) => tenants.find(id) ?? (await lookUp(id)) ?? unknownTenant(id),
    told: (tenant) => {
      lastTold.set(tenant.id, tenant);
      return records.putTenant(tenant);
    },
    forget: (id) => void lastTold.delete(id),
  };
}

function withBillableFrom(tenant: Tenant, billableFrom: number | undefined): Tenant {
  return billableFrom === undefined ? tenant : { ...tenant, billableFrom };
}
