import type { Tenant } from '../model/tenant.ts';

/*
 * What a billing system has invoiced, in our terms. Times are milliseconds since the epoch.
 */

/** The invoices of a billing system, which are compared with what was delivered (docs/explanation/delivery.md#invoices). */
export interface Invoices {
  /** For people: what the billing system does with usage that is sent when the invoice of its period is final. */
  readonly closedPeriods: string;
  /** Returns a tenant's final invoices. */
  list(query: InvoicesQuery, signal: AbortSignal): Promise<InvoicesOutcome>;
}

export interface InvoicesQuery {
  readonly tenant: Tenant;
  /** Invoices that became final before are of no concern. */
  readonly since: number;
}

export type InvoicesOutcome =
  | {
      readonly kind: 'invoices';
      /** Final and not void, in any order. */
      readonly invoices: readonly FinalInvoice[];
      /** What an invoice is still to come of: drafts, and periods that are running. */
      readonly open: readonly OpenUsage[];
      /**
       * Whom the invoices are made for, such as the customer, where several tenants may be one: they are
       * answered the same invoices, and are compared together.
       */
      readonly payer?: string;
      /** What bills the tenant is not what provisioning left there: it is to be provisioned again. */
      readonly recheck?: true;
    }
  | { readonly kind: 'unsupported'; readonly reason: string }
  | { readonly kind: 'retry'; readonly reason: string };

/** An invoice that no usage changes any more. */
export interface FinalInvoice {
  /** The billing system's own; an invoice that is computed anew has another one. */
  readonly id: string;
  /** As the customer sees it. */
  readonly number?: string;
  readonly finalizedAt: number;
  /** The end of what it invoices: usage before that is on it, or on one before it, or on none. */
  readonly until: number;
  /** ISO 4217, in capitals. */
  readonly currency?: string;
  /** Usage only: base fees, taxes, discounts and credits are left out. */
  readonly lines: readonly UsageLine[];
}

/** Usage on an invoice, one-off lines for usage that came late too. */
export interface UsageLine {
  readonly metric: string;
  readonly sku?: string;
  /** What the price depends on, as far as it is told. */
  readonly dimensions?: Readonly<Record<string, string>>;
  /** `[from, to)` by the start of the usage's window. */
  readonly from: number;
  readonly to: number;
  /** Plain decimal text in the metric's unit, at most nine decimals; may be negative. */
  readonly quantity: string;
  /** Before taxes and discounts, plain decimal text in the invoice's currency. */
  readonly amount?: string;
}

/** Usage from a moment on will be invoiced later. */
export interface OpenUsage {
  /** Absent where it is so for every metric. */
  readonly metric?: string;
  readonly from: number;
}
