import { backoffMs } from '../model/backoff.ts';
import type { UsageEvent } from '../model/event.ts';

/** An event on its way to one destination. */
export interface QueuedEvent {
  readonly sequence: number;
  readonly event: UsageEvent;
  /**
   * Of one that was set aside: when an attempt to send it began of which nobody knows whether it was taken, milliseconds
   * since the epoch.
   */
  readonly unansweredSince?: number;
  /** An operator wants it sent though nobody can tell whether the destination has it. */
  readonly forced?: true;
}

/** The sequence numbers of all that is kept. */
export async function sequencesOf(...listings: readonly AsyncIterable<QueuedEvent>[]) {
  const found = new Set<number>();
  for (const listing of listings) {
    for await (const { sequence } of listing) found.add(sequence);
  }
  return found;
}

/**
 * What became of an event at one destination, once and for all: the destination has it, does not want
 * its metric, or will never accept it; or it waits, in order, for its tenant. A dead letter is `refused` when
 * the destination itself said no to it; one that is `unansweredSince` may have been taken by an attempt that began then.
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

/** An event with what became of it. */
export interface SettledEvent extends QueuedEvent {
  readonly result: DeliveryResult;
}

/**
 * Why nothing more can be sent now: `retry` is over by itself, after `afterMs` if the other side said
 * so; `hold` needs an operator.
 */
export interface BlockReason {
  readonly kind: 'retry' | 'hold';
  readonly reason: string;
  readonly afterMs?: number;
}

/** The graver of two: a hold outranks a retry, a longer wait a shorter one. */
export function graver(
  a: BlockReason | undefined,
  b: BlockReason | undefined,
): BlockReason | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  if (a.kind !== b.kind) return a.kind === 'hold' ? a : b;
  return (b.afterMs ?? 0) > (a.afterMs ?? 0) ? b : a;
}

/** The events that have a result, with it. */
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

/** How many of the events have a result of this kind. */
export function countResults(
  settled: readonly Pick<SettledEvent, 'result'>[],
  kind: DeliveryResult['kind'],
): number {
  return settled.filter(({ result }) => result.kind === kind).length;
}

/** The event of each tenant whose window starts first; usage that is pushed in comes in any order. */
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

/** How long delivery waits after the n-th failure in a row (n from 1), whole milliseconds: up to 5 minutes. */
export function retryDelayMs(failures: number, random: () => number): number {
  return Math.round(backoffMs(failures, { ...RETRY_LIMITS, random }));
}
