import type { RecordChange } from '../../ledger/ledger.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { Tenant } from '../../model/tenant.ts';
import type { DeliveryRecords } from '../records/delivery-records.ts';

/**
 * A tenant as a destination is provisioned with it: as discovery knows it, else as it was provisioned
 * last (also by an earlier process), else as far as an event tells.
 */
export class TenantDirectory {
  readonly #records: DeliveryRecords;
  readonly #tenants: TenantSource;
  readonly #maxBackfillMs: () => number;
  readonly #lastProvisioned = new Map<string, Tenant>();

  constructor(records: DeliveryRecords, tenants: TenantSource, maxBackfillMs: () => number) {
    this.#records = records;
    this.#tenants = tenants;
    this.#maxBackfillMs = maxBackfillMs;
  }

  /** The tenant of an event that is to be sent. */
  async ofEvent(event: UsageEvent): Promise<Tenant> {
    const { known, tenant = tenantOfEvent(event) } = await this.#lookUp(event.tenant);
    const merged = withBillableFrom(tenant, known?.billableFrom);
    return { ...merged, billableFrom: billableFrom(merged, event, this.#maxBackfillMs()) };
  }

  /** The tenant as discovery knows it; undefined when it does not. */
  current(id: string): Tenant | undefined {
    const tenant = this.#tenants.find(id);
    return tenant && withBillableFrom(tenant, this.#lastProvisioned.get(id)?.billableFrom);
  }

  async find(id: string): Promise<Tenant> {
    const current = this.#tenants.find(id);
    if (current !== undefined) return current;
    const { tenant = unknownTenant(id) } = await this.#lookUp(id);
    return tenant;
  }

  /** The tenant as it would be provisioned without an event: one that was served before. */
  async asServed(id: string): Promise<Tenant> {
    const { known, tenant = unknownTenant(id) } = await this.#lookUp(id);
    return withBillableFrom(tenant, known?.billableFrom);
  }

  /** The destination has been provisioned with it; the change is to be written. */
  provisioned(tenant: Tenant): RecordChange {
    this.#lastProvisioned.set(tenant.id, tenant);
    return this.#records.putTenant(tenant);
  }

  forget(id: string): void {
    this.#lastProvisioned.delete(id);
  }

  /** `known`: as it was provisioned last. */
  async #lookUp(
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
