import type { Subject } from './subject.ts';

/**
 * How many equal subjects, nodes or rates are known as such: nothing refers to one that as many were
 * told after, so that nobody can fill the memory, neither when they are told nor when they are read.
 */
export const NUMBERED = 2_000;

/**
 * What one closing of a window adds to what is known of a tenant's charges, as plain JSON. Every list
 * goes on where the same list of the closings before ended, and is numbered through; times are
 * milliseconds after the start of the window.
 */
export interface EvidenceChanges {
  /** Nothing of the closings before holds any more: all lists begin anew. */
  readonly afresh?: true;
  /** As `identityKey` tells charges apart; of two with one key the latter holds. */
  readonly charges: readonly string[];
  readonly subjects: readonly Subject[];
  /** Names of nodes. */
  readonly nodes: readonly string[];
  /** Nano-units, as whole decimal numbers. */
  readonly rates: readonly string[];
  readonly spans: readonly NewSpan[];
  /** Spans that went on and have ended. */
  readonly ended: readonly (readonly [span: number, to: number])[];
  readonly notes: readonly EventNote[];
}

/**
 * An object that a charge is made of, from when to when nothing of it changed, all by their numbers.
 * `rate` is null where it is not the same all the time, `to` is null while it goes on: through every
 * window in which the charge has an event, until it is listed as ended.
 */
export type NewSpan = readonly [
  charge: number,
  subject: number,
  node: number | null,
  rate: number | null,
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
  readonly shares: readonly Share[];
  readonly rest: { readonly count: number; readonly quantity: number };
}

/** What spans came to in one window where that is not their rate × their time; lists of one length. */
export interface SpanAmounts {
  readonly spans: readonly number[];
  /** Nanos of the event's unit. */
  readonly nanos: readonly number[];
}

/** What one closing tells of one tenant. */
export interface TenantEvidence {
  readonly tenant: string;
  /** Undefined where nothing changed. */
  readonly changes: EvidenceChanges | undefined;
  readonly amounts: SpanAmounts;
}

/** `node` is the number of its node in `nodes`, `from` and `to` are milliseconds after the start of the window. */
export type Share = readonly [
  subject: number,
  uid: string,
  name: string,
  node: number | null,
  from: number,
  to: number,
  quantity: number,
  carried: 0 | 1,
];
