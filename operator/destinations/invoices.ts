import type { Tenant } from '../model/tenant.ts';

/*
 * What a billing system has invoiced, in our terms. Times are milliseconds since the epoch.
 */

/**
 * The invoices of a billing system. The operator compares them with delivered usage
 * (docs/explanation/delivery.md#invoices).
 */
export interface Invoices {
  /** For people: how the billing system treats usage that arrives after its invoice is final. */
  readonly closedPeriods: string;
  /** Returns a tenant's final invoices. */
  list(query: InvoicesQuery, signal: AbortSignal): Promise<InvoicesOutcome>;
}

export interface InvoicesQuery {
  readonly tenant: Tenant;
  /** Leaves out invoices that became final earlier. */
  readonly since: number;
}

export type InvoicesOutcome =
  | {
      readonly kind: 'invoices';
      /** Final and not void, in any order. */
      readonly invoices: readonly FinalInvoice[];
      /** Usage without a final invoice: drafts, and periods that still run. */
      readonly open: readonly OpenUsage[];
      /**
       * The payer of the invoices, such as the customer, where several tenants may share one. Such
       * tenants get the same invoices and are compared together.
       */
      readonly payer?: string;
      /** The subscription or contract differs from the provisioned one: provision again. */
      readonly recheck?: true;
    }
  | { readonly kind: 'unsupported'; readonly reason: string }
  | { readonly kind: 'retry'; readonly reason: string };

/** An invoice that further usage does not change. */
export interface FinalInvoice {
  /** The billing system's own id. A recomputed invoice has another id. */
  readonly id: string;
  /** The number that the customer sees. */
  readonly number?: string;
  readonly finalizedAt: number;
  /** The end of the invoiced period. Earlier usage is on this invoice, an earlier one, or none. */
  readonly until: number;
  /** ISO 4217, in capitals. */
  readonly currency?: string;
  /** Usage only, without base fees, taxes, discounts and credits. */
  readonly lines: readonly UsageLine[];
}

/** Usage on an invoice, including one-off lines for late usage. */
export interface UsageLine {
  readonly metric: string;
  readonly sku?: string;
  /** The dimensions that decide the price, where the invoice names them. */
  readonly dimensions?: Readonly<Record<string, string>>;
  /** `[from, to)` by the start of the usage's window. */
  readonly from: number;
  readonly to: number;
  /** Plain decimal text in the metric's unit, at most nine decimals; may be negative. */
  readonly quantity: string;
  /** Before taxes and discounts, plain decimal text in the invoice's currency. */
  readonly amount?: string;
}

/** Usage from a moment on that a later invoice will have. */
export interface OpenUsage {
  /** Absent where it holds for every metric. */
  readonly metric?: string;
  readonly from: number;
}
