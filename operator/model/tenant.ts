import type { DestinationType } from './destination-type.ts';

/** When a plan change takes effect: immediately, or at the end of the current billing period. */
export const PLAN_CHANGES = ['now', 'period-end'] as const;
export type PlanChange = (typeof PLAN_CHANGES)[number];

/** A billing customer and what belongs to it, from discovery and overrides. */
export interface Tenant {
  readonly id: string;
  readonly displayName: string;
  readonly email?: string;
  readonly project?: string;
  readonly tenantClass?: string;
  readonly plan?: string;
  /** When a plan change takes effect; absent if each destination's own setting applies. */
  readonly planChange?: PlanChange;
  readonly currency?: string;
  readonly costCenter?: string;
  /** Customer ids that its metadata set; absent if there are none. */
  readonly customerIds?: CustomerIds;
  /**
   * Customer ids that another tenant's metadata set too. They apply to neither, and its usage waits
   * there.
   */
  readonly sharedCustomerIds?: CustomerIds;
  /** Subscription ids that its metadata set, by type of destination; absent if there are none. */
  readonly subscriptionIds?: SubscriptionIds;
  /** Texts and due dates of invoices; absent without an override. */
  readonly billing?: BillingDetails;
  readonly region: string;
  /** Ids of its tenant clusters, sorted. */
  readonly clusters: readonly string[];
  /** Creation of its oldest tenant cluster, milliseconds since the epoch. */
  readonly createdAt: number;
  /**
   * The earliest window start that may have to be billed, milliseconds since the epoch. The
   * delivery engine sets it. A subscription that starts later would leave usage unbilled.
   */
  readonly billableFrom?: number;
}

/** Ids of customers at billing systems, by type of destination. */
export type CustomerIds = Readonly<Record<DestinationType, string>>;

/** Ids of subscriptions at billing systems, by type of destination. */
export type SubscriptionIds = Readonly<Record<DestinationType, string>>;

/** Details of a customer for billing systems, besides its name. */
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
  /** The time zone of its billing periods, such as `Europe/Berlin`. */
  readonly timeZone?: string;
  /** Days from an invoice's date until it is due. */
  readonly netTermsDays?: number;
}

const CUSTOMER_ID_FIELD = /^([a-z]+)CustomerId$/;

/** Reads a stored tenant. Older records have one field for each customer id, `<type>CustomerId`. */
export function storedTenant(stored: Tenant): Tenant {
  const ids = Object.entries(stored).flatMap(([field, value]) => {
    const type = CUSTOMER_ID_FIELD.exec(field)?.[1];
    return type !== undefined && typeof value === 'string' ? [[type, value] as const] : [];
  });
  return ids.length === 0 ? stored : { ...stored, customerIds: Object.fromEntries(ids) };
}
