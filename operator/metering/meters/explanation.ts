import { divideHalfUp } from '../../model/decimal.ts';
import type { UsageEvent } from '../../model/event.ts';
import { quantityOf } from './meters.ts';
import {
  type EventNote,
  type EvidenceChanges,
  type NewSpan,
  type SpanAmounts,
} from './evidence-changes.ts';
import { createNumbering, type Subject } from './subject.ts';
import { identityKey } from './tally.ts';

/**
 * The explanation of one event's quantity, as plain JSON. Quantities are in the event's unit,
 * rounded to nine decimals and signed; reversed usage is below zero.
 */
export interface Explanation {
  readonly id: string;
  /** Measured inside the window. */
  readonly measured: number;
  /** Usage of closed windows that became known late. */
  readonly carried: number;
  /** Reversed because it was billed before; at most 0. */
  readonly givenBack: number;
  /** The shares and the remainder sum to the billed quantity, within rounding. */
  readonly addsUp: boolean;
  /** The subjects of the shares, each listed once. */
  readonly subjects: readonly Subject[];
  readonly nodes: readonly string[];
  readonly shares: readonly Share[];
  readonly remainder: { readonly count: number; readonly quantity: number };
}

/** `node` is the index in `nodes`; `from` and `to` are milliseconds after the window's start. */
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

/** The evidence of the event's tenant in one closing. */
export interface ClosingEvidence {
  /** Start of the window, milliseconds since the epoch. */
  readonly start: number;
  readonly changes: EvidenceChanges;
}

/** Builds the explanation of an event out of the closings of its tenant, up to the event's own. */
export class Explainer {
  readonly #event: UsageEvent;
  readonly #key: string;
  readonly #start: number;
  readonly #end: number;
  /** Spans of the event's charge that may reach into its window, by number. */
  readonly #spans = new Map<number, KnownSpan>();
  #charge = -1;
  #chargeCount = 0;
  #spanCount = 0;
  #note: { readonly note: EventNote; readonly shares: readonly KnownShare[] } | undefined;

  constructor(event: UsageEvent) {
    this.#event = event;
    this.#key = identityKey(event);
    this.#start = Date.parse(event.window_start);
    this.#end = Date.parse(event.window_end);
  }

  /** Adds one closing; call it in order, up to the event's own closing. */
  add({ start, changes }: ClosingEvidence): void {
    if (changes.replacesEarlier === true) this.#beginAgain();
    for (const key of changes.charges) {
      if (key === this.#key) this.#begin(this.#chargeCount);
      this.#chargeCount += 1;
    }
    for (const span of changes.spans) {
      if (span[0] === this.#charge) this.#spans.set(this.#spanCount, known(span, start, changes));
      this.#spanCount += 1;
    }
    for (const [number, to] of changes.ended) {
      const span = this.#spans.get(number);
      if (span !== undefined) span.to = start + to;
    }
    for (const [number, { to }] of this.#spans) {
      if (to <= this.#start) this.#spans.delete(number);
    }
    const note = changes.notes.find(({ charge }) => charge === this.#charge);
    if (note !== undefined && start === this.#start) {
      this.#note = { note, shares: late(note, changes) };
    }
  }

  /** Returns the explanation by the amounts of the event's closing; undefined if unknown. */
  explanation(amounts: SpanAmounts): Explanation | undefined {
    if (this.#charge < 0) return undefined;
    const inWindow = new Map(amounts.spans.map((span, index) => [span, amounts.nanos[index] ?? 0]));
    const { divisor } = quantityOf(this.#event.metric);
    const measured = [...this.#spans].flatMap(([number, { of, from: began, to: ended, rate }]) => {
      const [from, to] = [Math.max(began, this.#start), Math.min(ended, this.#end)];
      if (to <= from) return [];
      const nanos = inWindow.get(number) ?? steady(rate, to - from, divisor);
      const bounds = [from - this.#start, to - this.#start] as const;
      return { of, values: [...bounds, nanos / 1e9, 0] } satisfies KnownShare;
    });
    const quantity = Number(this.#event.quantity);
    const { shares: carriedShares = [], note } = this.#note ?? {};
    const { carried = 0, givenBack = 0, rest = NOTHING_LEFT_OUT } = note ?? {};
    const all = [...measured, ...carriedShares];
    const sum = all.reduce((total, share) => total + share.values[2], rest.quantity + givenBack);
    return {
      id: this.#event.id,
      measured: note?.measured ?? quantity,
      carried,
      givenBack,
      addsUp: Math.abs(sum - quantity) <= (all.length + rest.count + 3) * HALF_A_NANO,
      ...listed(all),
      remainder: rest,
    };
  }

  #beginAgain(): void {
    this.#begin(-1);
    this.#chargeCount = 0;
    this.#spanCount = 0;
  }

  #begin(charge: number): void {
    this.#charge = charge;
    this.#spans.clear();
    this.#note = undefined;
  }
}

function known(
  [, subject, node, rate, uid, name, from, to]: NewSpan,
  start: number,
  { subjects }: EvidenceChanges,
): KnownSpan {
  return {
    of: { subject: subjects[subject], node, uid, name },
    rate: rate === null ? undefined : BigInt(rate),
    from: start + from,
    to: to === null ? Infinity : start + to,
  };
}

function late({ shares }: EventNote, { subjects }: EvidenceChanges): readonly KnownShare[] {
  return shares.map(([subject, node, uid, name, ...values]) => ({
    of: { subject: subjects[subject], node, uid, name },
    values: [...values, 1],
  }));
}

/** Each share is rounded to nine decimals, like the event; floating-point sums add a little. */
const HALF_A_NANO = 0.51e-9;

const NOTHING_LEFT_OUT = { count: 0, quantity: 0 };

interface ExplainedObject {
  readonly subject: Subject | undefined;
  readonly node: string | null;
  readonly uid: string;
  readonly name: string;
}

/** Times are milliseconds since the epoch. */
interface KnownSpan {
  readonly of: ExplainedObject;
  readonly rate: bigint | undefined;
  readonly from: number;
  to: number;
}

interface KnownShare {
  readonly of: ExplainedObject;
  readonly values: readonly [from: number, to: number, quantity: number, carried: 0 | 1];
}

/** Returns rate × time in billionths of the event's unit. */
function steady(rate: bigint | undefined, ms: number, divisor: bigint): number {
  return rate === undefined ? 0 : Number(divideHalfUp(rate * BigInt(ms), divisor));
}

/** Returns the shares, with the lists of their subjects and nodes. */
function listed(all: readonly KnownShare[]): Pick<Explanation, 'subjects' | 'nodes' | 'shares'> {
  const subjects: string[] = [];
  const nodes: string[] = [];
  const subjectNumber = createNumbering<string>((subject) => void subjects.push(subject));
  const nodeNumber = createNumbering<string>((node) => void nodes.push(node));
  const shares = all.flatMap(({ of, values }): Share[] => {
    const { subject, node, uid, name } = of;
    if (subject === undefined) return [];
    const onNode = node === null ? null : nodeNumber(node);
    return [[subjectNumber(JSON.stringify(subject)), uid, name, onNode, ...values]];
  });
  return { subjects: subjects.map((text) => JSON.parse(text) as Subject), nodes, shares };
}
