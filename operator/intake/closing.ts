import { type CompletedEvent, completeEvent, NumberText } from '../model/complete-event.ts';
import { decimalFromNanos } from '../model/decimal.ts';
import { lateSumId } from '../model/event-id.ts';
import { formatInstant, type Window } from '../model/window.ts';
import type { SeriesSum } from './open-sums.ts';

/** Requests of a window's last moments arrive after its end. */
export const SETTLING_MS = 60_000;

/**
 * The newest closing. An entry is in an event if its number is at most `cut` and its window ends at
 * or before `until`. No field goes back.
 */
export interface Closed {
  readonly until: number;
  readonly cut: number;
  /** Entries of hours before this time are dropped, and requests of these hours are refused. */
  readonly from: number;
  /** The end of the window that was closed, by the clock of that moment. It may go back. */
  readonly at: number;
}

export const NOTHING_CLOSED: Closed = { until: 0, cut: 0, from: 0, at: 0 };

/** Returns the end of the newest window that has settled. */
export function settledEnd(now: number, windowMs: number): number {
  return Math.floor((now - SETTLING_MS) / windowMs) * windowMs;
}

/** Returns the window of a moment. */
export function windowOf(at: number, windowMs: number): Window {
  const start = Math.floor(at / windowMs) * windowMs;
  return { start, end: start + windowMs };
}

/**
 * The usage event of a sum in the closing with the number `cut`
 * (docs/reference/events.md#usage-of-ai-gateways). Two kinds of sums have an id of their own:
 *
 * 1. Late sums: an earlier closing may have an event of the same series and window.
 * 2. Sums of unknown tenants: somebody may rename them to a tenant that has such an event.
 */
export function eventOf(
  sum: SeriesSum,
  { isLate, isKnown }: { readonly isLate: boolean; readonly isKnown: boolean },
  cut: number,
  recordedAt: string,
): CompletedEvent {
  const completed = draftEvent(sum, recordedAt);
  if (completed.kind === 'invalid' || (isKnown && !isLate)) return completed;
  const { event } = completed;
  const id = lateSumId(event.id, cut);
  return { kind: 'event', event: { ...event, id, ...(isLate && { properties: { late: true } }) } };
}

/** The usage event of a sum, or why there can be none. */
export function draftEvent(
  { metric, unit, dimensions, nanos, tenant, client, window, region }: Omit<SeriesSum, 'first'>,
  recordedAt: string,
): CompletedEvent {
  const input = {
    tenant,
    metric,
    quantity: new NumberText(decimalFromNanos(nanos)),
    window_start: formatInstant(window.start),
    window_end: formatInstant(window.end),
    dimensions,
  };
  return completeEvent(input, {
    recordedAt,
    source: `ingest:${client}`,
    region,
    unitOf: () => unit,
  });
}
