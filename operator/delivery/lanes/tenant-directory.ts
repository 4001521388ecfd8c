import type { RecordChange } from '../../ledger/ledger.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { Tenant } from '../../model/tenant.ts';
import type { DeliveryRecords } from '../records/delivery-records.ts';

/**
 * Finds tenants as a destination is provisioned with them: from discovery, else as last provisioned
 * (by this or an earlier process), else from an event.
 */
export class TenantDirectory {
  readonly #records: DeliveryRecords;
  readonly #tenants: TenantLookup;
  readonly #maxBackfillMs: () => number;
  readonly #lastProvisioned = new Map<string, Tenant>();

  constructor(records: DeliveryRecords, tenants: TenantLookup, maxBackfillMs: () => number) {
    this.#records = records;
    this.#tenants = tenants;
    this.#maxBackfillMs = maxBackfillMs;
  }

  async ofEvent(event: UsageEvent): Promise<Tenant> {
    const { known, tenant = tenantOfEvent(event) } = await this.#findStored(event.tenant);
    const merged = withBillableFrom(tenant, known?.billableFrom);
    return { ...merged, billableFrom: billableFrom(merged, event, this.#maxBackfillMs()) };
  }

  /** Returns the tenant from discovery; undefined if discovery does not know it. */
  current(id: string): Tenant | undefined {
    const tenant = this.#tenants.find(id);
    return tenant && withBillableFrom(tenant, this.#lastProvisioned.get(id)?.billableFrom);
  }

  async find(id: string): Promise<Tenant> {
    const current = this.#tenants.find(id);
    if (current !== undefined) return current;
    const { tenant = unknownTenant(id) } = await this.#findStored(id);
    return tenant;
  }

  /** Returns the tenant for provisioning without an event. It was served before. */
  async asServed(id: string): Promise<Tenant> {
    const { known, tenant = unknownTenant(id) } = await this.#findStored(id);
    return withBillableFrom(tenant, known?.billableFrom);
  }

  /** Notes that the tenant was provisioned. Write the returned change. */
  provisioned(tenant: Tenant): RecordChange {
    this.#lastProvisioned.set(tenant.id, tenant);
    return this.#records.putTenant(tenant);
  }

  forget(id: string): void {
    this.#lastProvisioned.delete(id);
  }

  /** `known` is the tenant as last provisioned. */
  async #findStored(
    id: string,
  ): Promise<{ readonly known: Tenant | undefined; readonly tenant: Tenant | undefined }> {
    const known = this.#lastProvisioned.get(id) ?? (await this.#records.tenant(id));
    const tenant = this.#tenants.find(id) ?? known ?? (await this.#tenants.recorded?.(id));
    return { known, tenant };
  }
}

function withBillableFrom(tenant: Tenant, billableFrom: number | undefined): Tenant {
  return billableFrom === undefined ? tenant : { ...tenant, billableFrom };
}

/** The tenants that discovery knows. */
export interface TenantLookup {
  find(id: string): Tenant | undefined;
  /** Returns a tenant that another process has discovered, perhaps before this one. */
  recorded?(id: string): Promise<Tenant | undefined>;
  /** Calls the listener after every change. Returns the function that ends the subscription. */
  subscribe(listener: () => void): () => void;
  /** Returns, as of now, a predicate: has a tenant usage that could not be measured yet? */
  openGaps?(): (id: string) => boolean;
}

/** Returns a tenant from an event alone: pushed usage may be of undiscovered tenants. */
export function tenantOfEvent({ tenant, region = '' }: UsageEvent): Tenant {
  return { ...unknownTenant(tenant), region };
}

/** Returns a tenant with nothing but its id. `createdAt` is 0 because it is unknown. */
export function unknownTenant(id: string): Tenant {
  return { id, displayName: id, region: '', clusters: [], createdAt: 0 };
}

/**
 * Returns the earliest window start that may be billed, milliseconds since the epoch: the tenant's
 * creation, at most MAX_BACKFILL before its first event, and never after that event.
 */
export function billableFrom(tenant: Tenant, event: UsageEvent, maxBackfillMs: number): number {
  const first = Date.parse(event.window_start);
  const known = tenant.billableFrom ?? Number.POSITIVE_INFINITY;
  return Math.min(first, known, Math.max(tenant.createdAt, first - maxBackfillMs));
}

/** Returns a text that changes if the tenant must be provisioned again. */
export function tenantFingerprint(tenant: Tenant): string {
  return JSON.stringify({ ...tenant, billableFrom: undefined });
}
