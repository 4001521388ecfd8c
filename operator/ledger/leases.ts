/** A right that one process has at a time. */
export interface Lease {
  readonly name: string;
  /** Grows with every holder. */
  readonly epoch: number;
}
