import type { LatePrice, LateWay } from '../../destinations/late.ts';
import type { Decimal } from '../../model/decimal.ts';

/** One event of a line, as far as it differs from the others. */
export interface LatePart {
  readonly sequence: number;
  readonly id: string;
  readonly start: string;
  readonly end: string;
  readonly quantity: Decimal;
}

/**
 * Late usage that is to be billed as one amount, as its ledger record holds it. While it is `open` it takes in
 * more; once `closed` it never changes, and may have been billed without our having heard of it.
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
  /** The billing system's id of what it has made of it. */
  readonly reference?: string;
}
