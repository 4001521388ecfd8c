import { backoffMs } from '../model/backoff.ts';
import type { UsageEvent } from '../model/event.ts';

/** An event on its way to one destination. */
export interface QueuedEvent {
  readonly sequence: number;
  readonly event: UsageEvent;
  /**
   * Of an event that was set aside: start of the first attempt whose outcome is unknown,
   * milliseconds since the epoch.
   */
  readonly unansweredSince?: number;
  /** An operator wants it sent although it is unknown whether the destination has it. */
  readonly forced?: true;
}

/** Returns the sequence numbers of all events in the listings. */
export async function sequencesOf(...listings: readonly AsyncIterable<QueuedEvent>[]) {
  const found = new Set<number>();
  for (const listing of listings) {
    for await (const { sequence } of listing) found.add(sequence);
  }
  return found;
}

/**
 * The final outcome of an event at one destination:
 *
 * 1. `delivered`: the destination has it.
 * 2. `skipped`: the destination does not want its metric.
 * 3. `dead`: a dead letter. `refused` if the destination itself rejected it. With
 *    `unansweredSince`, an attempt that began at that time may have been accepted.
 * 4. `parked`: it waits for its tenant, in order.
 */
export type DeliveryResult =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'skipped' }
  | {
      readonly kind: 'dead';
      readonly reason: string;
      readonly refused?: true;
      readonly unansweredSince?: number;
    }
  | { readonly kind: 'parked'; readonly reason: string };

/** An event with its outcome. */
export interface SettledEvent extends QueuedEvent {
  readonly result: DeliveryResult;
}

/**
 * Why nothing more can be sent now. `retry` ends by itself, after `afterMs` if the destination gave
 * a time. `blocked` needs an operator.
 */
export interface BlockReason {
  readonly kind: 'retry' | 'blocked';
  readonly reason: string;
  readonly afterMs?: number;
}

/** Returns the graver of two reasons: `blocked` before `retry`, then the longer wait. */
export function graver(
  a: BlockReason | undefined,
  b: BlockReason | undefined,
): BlockReason | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  if (a.kind !== b.kind) return a.kind === 'blocked' ? a : b;
  return (b.afterMs ?? 0) > (a.afterMs ?? 0) ? b : a;
}

/** Returns the events that have a result, each with its result. */
export function withResults(
  queued: readonly QueuedEvent[],
  results: ReadonlyMap<number, DeliveryResult>,
): SettledEvent[] {
  return queued.flatMap(({ sequence, event, unansweredSince }) => {
    const result = results.get(sequence);
    if (result === undefined) return [];
    return [{ sequence, event, unansweredSince, result }];
  });
}

/** Counts the events that have a result of this kind. */
export function countResults(
  settled: readonly Pick<SettledEvent, 'result'>[],
  kind: DeliveryResult['kind'],
): number {
  return settled.filter(({ result }) => result.kind === kind).length;
}

/** Returns each tenant's event with the earliest window start; pushed usage has any order. */
export function earliestByTenant(queued: readonly QueuedEvent[]): ReadonlyMap<string, UsageEvent> {
  const earliest = new Map<string, UsageEvent>();
  for (const { event } of queued) {
    const before = earliest.get(event.tenant);
    if (before === undefined || event.window_start < before.window_start) {
      earliest.set(event.tenant, event);
    }
  }
  return earliest;
}

const RETRY_LIMITS = { baseMs: 1_000, capMs: 300_000 };

/** Returns the wait after the n-th failure in a row (from 1): full milliseconds, at most 5 min. */
export function retryDelayMs(failures: number, random: () => number): number {
  return Math.round(backoffMs(failures, { ...RETRY_LIMITS, random }));
}
