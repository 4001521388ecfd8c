/** What a vendor would bill for, in the order in which it took it. An event taken twice is there twice. */
export interface Billed {
  readonly id: string;
  /** The event as it came, or what of it the vendor keeps. */
  readonly content: string;
}

/** A running stand-in of a vendor. */
export interface StandIn {
  readonly url: string;
  billed(): readonly Billed[];
  /** Repeats that it recognised. */
  repeats(): number;
  close(): Promise<void>;
}

/** Carries the true time to the stand-ins, which know no other. Milliseconds since the epoch. */
export const TRUE_TIME_HEADER = 'x-true-time';
