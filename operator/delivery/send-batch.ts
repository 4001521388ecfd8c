import type { DeliveryOutcome, Destination } from '../destinations/destination.ts';
import type { UsageEvent } from '../model/event.ts';
import { type Trouble, worse } from './entry.ts';

/** What the other side said for good about an event; `provision`: it does not know the tenant. */
export type Settlement =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'rejected'; readonly reason: string }
  | { readonly kind: 'provision'; readonly reason: string };

export interface SendReport {
  /** By the event's index; what is missing is not settled. */
  readonly settlements: ReadonlyMap<number, Settlement>;
  readonly trouble?: Trouble;
}

/**
 * Sends events and narrows a refusal down: what is refused as a whole is sent again in halves, until
 * the event at fault stands alone and is rejected. Stops at the first trouble, since what comes after
 * it would meet the same.
 */
export async function sendBatch(
  destination: Pick<Destination, 'send'>,
  events: readonly UsageEvent[],
  signal: AbortSignal,
): Promise<SendReport> {
  const settlements = new Map<number, Settlement>();
  let trouble: Trouble | undefined;

  const send = async (indexes: readonly number[]): Promise<void> => {
    const batch = indexes.flatMap((index) => events[index] ?? []);
    const outcomes = await attempt(destination, batch, signal);
    const refused: number[] = [];
    for (const [position, index] of indexes.entries()) {
      const outcome = outcomes[position] ?? UNANSWERED;
      if (outcome.kind === 'split') {
        if (indexes.length > 1) refused.push(index);
        else settlements.set(index, { kind: 'rejected', reason: outcome.reason });
      } else if (outcome.kind === 'retry' || outcome.kind === 'hold') {
        trouble = worse(trouble, outcome);
      } else {
        settlements.set(index, outcome);
      }
    }
    const middle = Math.ceil(refused.length / 2);
    for (const half of [refused.slice(0, middle), refused.slice(middle)]) {
      if (half.length > 0 && trouble === undefined) await send(half);
    }
  };

  await send(events.map((_, index) => index));
  return { settlements, ...(trouble !== undefined && { trouble }) };
}

const UNANSWERED: DeliveryOutcome = { kind: 'retry', reason: 'no outcome for an event' };

/** A destination that throws is at fault itself; its events are tried again, not lost. */
async function attempt(
  destination: Pick<Destination, 'send'>,
  events: readonly UsageEvent[],
  signal: AbortSignal,
): Promise<readonly DeliveryOutcome[]> {
  try {
    return await destination.send(events, signal);
  } catch (error) {
    const reason = `send failed: ${error instanceof Error ? error.message : String(error)}`;
    return events.map(() => ({ kind: 'retry', reason }));
  }
}
