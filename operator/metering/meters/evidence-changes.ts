import type { Subject } from './subject.ts';

/**
 * What one closing of a window adds to what is known of a tenant's charges, as plain JSON. Charges and
 * spans are numbered through all closings, subjects in each by itself; times are milliseconds after the
 * start of the window.
 */
export interface EvidenceChanges {
  /** Nothing of the closings before applies: numbers begin at 0 again. */
  readonly afresh?: true;
  /** As `identityKey` tells charges apart; of two with one key the latter holds. */
  readonly charges: readonly string[];
  readonly subjects: readonly Subject[];
  readonly spans: readonly NewSpan[];
  /** Spans that went on and have ended. */
  readonly ended: readonly (readonly [span: number, to: number])[];
  readonly notes: readonly EventNote[];
}

/**
 * An object that a charge is made of, from when to when nothing of it changed. `node` is the name of
 * its node. `rate` is a whole number of nano-units, and null where it is not the same all the time; `to`
 * is null while it goes on: through every window in which the charge has an event, until it is listed
 * as ended.
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

/** What holds for one event only; most have none. Quantities as in an explanation. */
export interface EventNote {
  readonly charge: number;
  readonly measured: number;
  readonly carried: number;
  readonly givenBack: number;
  /** Carried from closed windows. */
  readonly shares: readonly LateShare[];
  readonly rest: { readonly count: number; readonly quantity: number };
}

/** As a share of an explanation, `node` being its name. */
export type LateShare = readonly [
  subject: number,
  node: string | null,
  uid: string,
  name: string,
  from: number,
  to: number,
  quantity: number,
];

/** What spans came to in one window where that is not their rate × their time; lists of one length. */
export interface SpanAmounts {
  readonly spans: readonly number[];
  /** Nanos of the event's unit. */
  readonly nanos: readonly number[];
}

/** What one closing tells of one tenant. */
export interface TenantEvidence {
  readonly tenant: string;
  /** Start of the tenant's hour, milliseconds since the epoch: what is listed builds on its other closings only. */
  readonly hour: number;
  /** Undefined where nothing changed. */
  readonly changes: EvidenceChanges | undefined;
  readonly amounts: SpanAmounts;
}
