import type { DestinationType } from '../model/destination-type.ts';
import type { UsageEvent } from '../model/event.ts';
import type { Tenant } from '../model/tenant.ts';
import type { FailedStep } from './failed-step.ts';

/*
 * Usage that comes after the invoice of its time is final, and what a billing system can do about it
 * (docs/explanation/delivery.md#late-usage). Times are milliseconds since the epoch.
 */

/**
 * What becomes of late usage: `send` sends it all the same, `next` makes it a line of its own on the next
 * invoice, `credit` credits what was billed too much on the invoice itself and does the rest like `next`,
 * `hold` waits for a person.
 */
export type LatePolicy = 'send' | 'next' | 'credit' | 'hold';

/** Whether late usage is billed by lines of its own. */
export function isBilledSeparately(policy: LatePolicy | undefined): policy is LateWay {
  return policy === 'next' || policy === 'credit';
}

/** How an amount is brought to the customer: on the next invoice, or as a credit of the one that has it. */
export type LateWay = 'next' | 'credit';

/** What usage costs by the invoice of its time. */
export interface LatePrice {
  /** Usage of one key is billed as one: of one line of one invoice. */
  readonly key: string;
  /** Of a unit, in the main unit of the currency: plain decimal text with any number of decimals. */
  readonly each: string;
  /** ISO 4217, in capitals. */
  readonly currency: string;
  /** The billing system's id of the invoice, and of its line where that has one. */
  readonly invoice: string;
  readonly line?: string;
  /** The invoice as the customer sees it. */
  readonly number?: string;
}

/** What is to become of one late event. */
export type LatePricing =
  | { readonly kind: 'priced'; readonly price: LatePrice }
  /** The billing system has the event already. */
  | { readonly kind: 'delivered' }
  | FailedStep;

/** Late usage that is billed as one amount. */
export interface LateLine {
  /** The same at every attempt: at most 64 letters, digits and `_`. */
  readonly id: string;
  readonly way: LateWay;
  readonly price: LatePrice;
  readonly metric: string;
  /** Plain decimal text, at most nine decimals; below zero for what was billed too much. */
  readonly quantity: string;
  /** The quantity times the price, rounded once to the currency's smallest unit; with the sign of the quantity. */
  readonly amount: string;
  /** That amount as a whole number of the currency's smallest unit. */
  readonly minor: bigint;
  /** Of the usage. */
  readonly from: number;
  readonly to: number;
  /** For whoever reads the invoice. */
  readonly text: string;
}

/** What became of a line. */
export type LateOutcome =
  /** The billing system's id of what it has made of it, now or at an earlier attempt. */
  { readonly kind: 'billed'; readonly reference: string } | FailedStep;

/** What a destination must be able to do for late usage. */
export interface LateBiller {
  /** What events of one tenant cost, by their invoices; `outcomes[i]` belongs to `events[i]`. Changes nothing. */
  price(
    tenant: Tenant,
    events: readonly UsageEvent[],
    signal: AbortSignal,
  ): Promise<readonly LatePricing[]>;
  /**
   * Brings a line to the customer, at most once for its id: it is called again where an answer was lost, and
   * looks first for what an earlier call has made, however long ago.
   */
  bill(tenant: Tenant, line: LateLine, signal: AbortSignal): Promise<LateOutcome>;
}

/** Why a destination of this type cannot have a policy; undefined where it can. */
export function lateProblem(
  { type, late = [] }: { readonly type: DestinationType; readonly late?: readonly LateWay[] },
  policy: LatePolicy | undefined,
): string | undefined {
  if (policy === undefined || policy === 'send' || policy === 'hold') return undefined;
  if (late.includes(policy)) return undefined;
  const others = ['send', ...late, 'hold'].join(', ');
  return `${type} cannot bill late usage that way: late: "${policy}"; use one of ${others}`;
}

/** Billed in whole units, and in thousandths. */
const COMPLETE = new Set(
  'BIF CLP DJF GNF JPY KMF KRW MGA PYG RWF UGX VND VUV XAF XOF XPF'.split(' '),
);

const THOUSANDTHS = new Set('BHD JOD KWD OMR TND'.split(' '));

/** How many decimals amounts of a currency have. */
export function decimalsOf(currency: string): number {
  const code = currency.toUpperCase();
  if (COMPLETE.has(code)) return 0;
  return THOUSANDTHS.has(code) ? 3 : 2;
}
