import type { LatePrice, LateWay } from '../../destinations/late.ts';
import type { Decimal } from '../../model/decimal.ts';

/** The fields of one event of a line that differ from the other events. */
export interface LatePart {
  readonly sequence: number;
  readonly id: string;
  readonly start: string;
  readonly end: string;
  readonly quantity: Decimal;
}

/**
 * Ledger record of late usage that is billed as one amount. An `open` line collects more usage. A
 * `closed` line never changes, and may be billed although the operator has not received the answer.
 */
export interface StoredLine {
  readonly id: string;
  readonly tenant: string;
  readonly way: LateWay;
  readonly price: LatePrice;
  /** One of its events, encoded. */
  readonly like: string;
  /** Milliseconds since the epoch. */
  readonly openedAt: number;
  readonly state: 'open' | 'closed' | 'billed';
  readonly parts: readonly LatePart[];
  /** The billing system's id of the invoice item or credit note. */
  readonly reference?: string;
}
