import type { DestinationType } from '../model/destination-type.ts';
import type { UsageEvent } from '../model/event.ts';
import type { Tenant } from '../model/tenant.ts';
import type { FailedStep } from './failed-step.ts';

/*
 * Usage that arrives after the invoice of its time is final, and what billing systems do with it
 * (docs/explanation/delivery.md#late-usage). Times are milliseconds since the epoch.
 */

/**
 * How a destination treats late usage:
 * - `send` sends it like other usage.
 * - `next` adds a line to the next invoice.
 * - `credit` credits over-billed usage on the invoice itself, and is like `next` otherwise.
 * - `hold` waits for a person.
 */
export type LatePolicy = 'send' | 'next' | 'credit' | 'hold';

/** Returns whether late usage is billed by separate lines. */
export function isBilledSeparately(policy: LatePolicy | undefined): policy is LateWay {
  return policy === 'next' || policy === 'credit';
}

/** Where the amount goes: the next invoice, or a credit of the invoice that has the usage. */
export type LateWay = 'next' | 'credit';

/** The price of usage by the invoice of its time. */
export interface LatePrice {
  /** Usage with the same key is billed as one line: it shares a line of an invoice. */
  readonly key: string;
  /** The price of one unit in the currency's main unit: decimal text with any number of digits. */
  readonly each: string;
  /** ISO 4217, in capitals. */
  readonly currency: string;
  /** The billing system's id of the invoice, and of its line where it has one. */
  readonly invoice: string;
  readonly line?: string;
  /** The invoice number that the customer sees. */
  readonly number?: string;
}

/** How to treat one late event. */
export type LatePricing =
  | { readonly kind: 'priced'; readonly price: LatePrice }
  /** The billing system already has the event. */
  | { readonly kind: 'delivered' }
  | FailedStep;

/** Late usage that is billed as one amount. */
export interface LateLine {
  /** The same at every attempt: at most 64 letters, digits and `_`. */
  readonly id: string;
  readonly way: LateWay;
  readonly price: LatePrice;
  readonly metric: string;
  /** Plain decimal text, at most nine decimals; negative for over-billed usage. */
  readonly quantity: string;
  /** Quantity × price, rounded once to the currency's smallest unit; the sign of the quantity. */
  readonly amount: string;
  /** The same amount as a count of the currency's smallest unit. */
  readonly minor: bigint;
  /** The range of the usage's windows. */
  readonly from: number;
  readonly to: number;
  /** The text on the invoice. */
  readonly text: string;
}

/** The outcome of a line. */
export type LateOutcome =
  /** The billing system's id of the object for the line, from this attempt or an earlier one. */
  { readonly kind: 'billed'; readonly reference: string } | FailedStep;

/** The capability to bill late usage. */
export interface LateBiller {
  /** Prices a tenant's events by their invoices; `outcomes[i]` is for `events[i]`. Read-only. */
  price(
    tenant: Tenant,
    events: readonly UsageEvent[],
    signal: AbortSignal,
  ): Promise<readonly LatePricing[]>;
  /**
   * Bills a line to the customer, at most once for its id. The caller repeats it after a lost
   * answer. It first looks for the result of any earlier call, however old.
   */
  bill(tenant: Tenant, line: LateLine, signal: AbortSignal): Promise<LateOutcome>;
}

/** Returns why a destination of this type cannot have a policy; undefined where it can. */
export function lateProblem(
  { type, late = [] }: { readonly type: DestinationType; readonly late?: readonly LateWay[] },
  policy: LatePolicy | undefined,
): string | undefined {
  if (policy === undefined || policy === 'send' || policy === 'hold') return undefined;
  if (late.includes(policy)) return undefined;
  const others = ['send', ...late, 'hold'].join(', ');
  return `${type} cannot bill late usage that way: late: "${policy}"; use one of ${others}`;
}

/** Currencies without decimals, and with three. */
const NO_DECIMALS = new Set(
  'BIF CLP DJF GNF JPY KMF KRW MGA PYG RWF UGX VND VUV XAF XOF XPF'.split(' '),
);

const THREE_DECIMALS = new Set('BHD JOD KWD OMR TND'.split(' '));

/** Returns the number of decimals of a currency's amounts. */
export function decimalsOf(currency: string): number {
  const code = currency.toUpperCase();
  if (NO_DECIMALS.has(code)) return 0;
  return THREE_DECIMALS.has(code) ? 3 : 2;
}
