import { hash } from 'node:crypto';
import { type Decimal, nanosFromDecimal, signedFromNanos } from './decimal.ts';
import type { UsageEvent } from './event.ts';

/** The source of every correction. Nobody can push it: pushed events name their sender. */
const SOURCE = 'correction';

/** The prefix of correction ids, which pushed events may not have. */
export const CORRECTION_ID_PREFIX = 'cor1_';

const LATE_NOTE_PREFIX = `${CORRECTION_ID_PREFIX}late_`;

const HEX_DIGITS = 32;

/** Who corrects an event, and why. */
export interface CorrectionNote {
  readonly reason: string;
  readonly author: string;
}

/** An event with its place in the ledger. */
interface Corrected {
  readonly event: UsageEvent;
  readonly sequence: number;
}

/** Id of the n-th correction of an event, n from 1; found without a list of corrections. */
export function correctionId(corrected: string, number: number): string {
  const digest = hash('sha256', corrected, 'hex').slice(0, HEX_DIGITS);
  return `${CORRECTION_ID_PREFIX}${digest}_${number}`;
}

/**
 * The event that changes the quantity of another one (docs/reference/events.md#corrections). It has
 * the same identity and window, its own id, and the difference, which may be negative.
 */
export function correctionOf(
  { event, sequence }: Corrected,
  number: number,
  difference: bigint,
  recordedAt: string,
  { reason, author }: CorrectionNote,
): UsageEvent {
  return {
    ...event,
    id: correctionId(event.id, number),
    quantity: signedFromNanos(difference),
    recorded_at: recordedAt,
    properties: { corrects: event.id, corrects_sequence: sequence, reason, author },
    source: SOURCE,
  };
}

/**
 * An event that notes in the ledger that another one was billed separately from the usage of its
 * time, as part of a line (docs/explanation/delivery.md#late-usage). It has the same identity and
 * window, its own id and quantity zero. No destination receives it.
 */
export function lateNoteOf(
  { event, sequence }: Corrected,
  recordedAt: string,
  {
    destination,
    line,
    reason,
  }: {
    readonly destination: string;
    /** The billing system's id of the line or credit that contains it. */
    readonly line: string;
    /** Why it is not billed as usage. */
    readonly reason: string;
  },
): UsageEvent {
  const digest = hash('sha256', `${destination}\0${event.id}`, 'hex').slice(0, HEX_DIGITS);
  return {
    ...event,
    id: `${LATE_NOTE_PREFIX}${digest}`,
    quantity: signedFromNanos(0n),
    recorded_at: recordedAt,
    properties: {
      corrects: event.id,
      corrects_sequence: sequence,
      reason,
      author: 'meterfeed',
      destination,
      line,
      billed: event.quantity,
    },
    source: SOURCE,
  };
}

/** Whether an event only notes how another one was billed. */
export function isLateNote({ id, source }: UsageEvent): boolean {
  return source === SOURCE && id.startsWith(LATE_NOTE_PREFIX);
}

export function isCorrection({ source }: UsageEvent): boolean {
  return source === SOURCE;
}

/** The sequence number of the corrected event in the ledger. */
export function correctedSequence({ properties }: UsageEvent): number {
  return Number(properties?.['corrects_sequence']);
}

/** Whether a quantity is negative, as in a correction that reduces usage. */
export function isNegative(quantity: Decimal): boolean {
  return nanosFromDecimal(quantity) < 0n;
}
