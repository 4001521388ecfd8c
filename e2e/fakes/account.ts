/**
 * The state of all usage that a stand-in accepted, in one form for all vendors. No vendor shows
 * this: tests use it to see usage that the vendor drops silently.
 */
export interface Account {
  readonly invoices: readonly AccountInvoice[];
  readonly events: readonly AccountEvent[];
}

export interface AccountInvoice {
  readonly id: string;
  readonly customer: string;
  /** The vendor's own status. */
  readonly status: string;
  /** `cycle` at the end of a period, `other` for a change, an end, or by hand. */
  readonly kind: 'cycle' | 'other';
  /** What it bills: a subscription, or a contract by its name. */
  readonly of: string;
  /** Milliseconds since the epoch: the start of the usage on it, and when it was made. */
  readonly from: number;
  readonly madeAt: number;
  readonly isFinal: boolean;
  readonly lines: readonly AccountLine[];
}

export interface AccountLine {
  readonly metric: string;
  /** Plain decimal text. */
  readonly units: string;
  /** In the currency's main unit, as plain decimal text; not rounded. */
  readonly amount: string;
  /** Ids of the events that it counts. */
  readonly events: readonly string[];
}

/**
 * One accepted event: the number of final lines that count it, whether one may still come, or why
 * none will.
 */
export interface AccountEvent {
  readonly id: string;
  readonly units: string;
  readonly lines: number;
  readonly fate: Fate;
}

export type Fate =
  | { readonly kind: 'invoiced' }
  | { readonly kind: 'open' }
  | { readonly kind: 'never'; readonly because: string };

/** Returns the number of lines of each event, by the event's id. */
export function linesByEvent(invoices: readonly AccountInvoice[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { events } of invoices.flatMap(({ lines }) => lines)) {
    for (const id of events) counts.set(id, (counts.get(id) ?? 0) + 1);
  }
  return counts;
}
