import type { DestinationType } from './destination-type.ts';

/** When a change of plan is made: as soon as it is wanted, or when the billing period that runs is over. */
export const PLAN_CHANGES = ['now', 'period-end'] as const;
export type PlanChange = (typeof PLAN_CHANGES)[number];

/** A billing customer and what belongs to it, as discovery and overrides say. */
export interface Tenant {
  readonly id: string;
  readonly displayName: string;
  readonly email?: string;
  readonly project?: string;
  readonly tenantClass?: string;
  readonly plan?: string;
  /** When a change of its plan is made; absent where each destination's own setting holds. */
  readonly planChange?: PlanChange;
  readonly currency?: string;
  readonly costCenter?: string;
  /** The customers that its metadata pin; absent when they pin none. */
  readonly customerIds?: CustomerIds;
  /** Those that another tenant's metadata pin too: they count for neither, and its usage waits there. */
  readonly sharedCustomerIds?: CustomerIds;
  /** The subscriptions that its metadata pin, by type of destination; absent when they pin none. */
  readonly subscriptionIds?: SubscriptionIds;
  /** What invoices say and when they are due; absent where no override says anything. */
  readonly billing?: BillingDetails;
  readonly region: string;
  /** Ids of its tenant clusters, sorted. */
  readonly clusters: readonly string[];
  /** Creation of its oldest tenant cluster, milliseconds since the epoch. */
  readonly createdAt: number;
  /**
   * The earliest window start that may have to be billed, milliseconds since the epoch; the delivery
   * engine fills it in. A subscription that begins later would leave usage unbilled.
   */
  readonly billableFrom?: number;
}

/** Ids of customers at billing systems, by type of destination. */
export type CustomerIds = Readonly<Record<DestinationType, string>>;

/** Ids of subscriptions at billing systems, by type of destination. */
export type SubscriptionIds = Readonly<Record<DestinationType, string>>;

/** What billing systems are told of a customer beside its name. */
export interface BillingDetails {
  readonly address?: {
    readonly line1?: string;
    readonly line2?: string;
    readonly city?: string;
    readonly state?: string;
    readonly postalCode?: string;
    /** ISO 3166-1, two letters. */
    readonly country?: string;
  };
  readonly taxId?: string;
  /** By which its billing periods begin, such as `Europe/Berlin`. */
  readonly timeZone?: string;
  /** Days from an invoice's date until it is due. */
  readonly netTermsDays?: number;
}

const CUSTOMER_ID_FIELD = /^([a-z]+)CustomerId$/;

/** A tenant as a record holds it; older records have a field for each customer id, `<type>CustomerId`. */
export function storedTenant(stored: Tenant): Tenant {
  const ids = Object.entries(stored).flatMap(([field, value]) => {
    const type = CUSTOMER_ID_FIELD.exec(field)?.[1];
    return type !== undefined && typeof value === 'string' ? [[type, value] as const] : [];
  });
  return ids.length === 0 ? stored : { ...stored, customerIds: Object.fromEntries(ids) };
}
