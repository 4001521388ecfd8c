import type { Subject } from './subject.ts';

/**
 * What one closing of a window adds to the evidence of a tenant, as plain JSON. Charges and spans
 * are numbered through all closings, subjects within each closing. Times are milliseconds after the
 * start of the window.
 */
export interface EvidenceChanges {
  /** Earlier closings do not apply: numbers begin at 0 again. */
  readonly replacesEarlier?: true;
  /** New charges by {@link identityKey}; of two with one key the later one counts. */
  readonly charges: readonly string[];
  readonly subjects: readonly Subject[];
  readonly spans: readonly NewSpan[];
  /** Spans of earlier closings that have ended. */
  readonly ended: readonly (readonly [span: number, to: number])[];
  readonly notes: readonly EventNote[];
}

/**
 * One object of a charge, for a time in which it did not change.
 * 1. `node` is the name of its node.
 * 2. `rate` is an integer of nano-units, null where it varies.
 * 3. `to` is null while the span lasts: through every window in which the charge has an event,
 *    until it is listed as ended.
 */
export type NewSpan = readonly [
  charge: number,
  subject: number,
  node: string | null,
  rate: string | null,
  uid: string,
  name: string,
  from: number,
  to: number | null,
];

/** What applies to one event only; most events have none. Quantities are as in an explanation. */
export interface EventNote {
  readonly charge: number;
  readonly measured: number;
  readonly carried: number;
  readonly givenBack: number;
  /** Shares carried from closed windows. */
  readonly shares: readonly LateShare[];
  readonly rest: { readonly count: number; readonly quantity: number };
}

/** A share of an explanation, with the name of its node. */
export type LateShare = readonly [
  subject: number,
  node: string | null,
  uid: string,
  name: string,
  from: number,
  to: number,
  quantity: number,
];

/** Amounts of spans in one window, where they differ from rate × time; lists of equal length. */
export interface SpanAmounts {
  readonly spans: readonly number[];
  /** Nanos of the event's unit. */
  readonly nanos: readonly number[];
}

/** The evidence of one tenant in one closing. */
export interface TenantEvidence {
  readonly tenant: string;
  /** Start of the tenant's hour, ms since the epoch: changes build on this hour's closings only. */
  readonly hour: number;
  /** Undefined where nothing changed. */
  readonly changes: EvidenceChanges | undefined;
  readonly amounts: SpanAmounts;
}
