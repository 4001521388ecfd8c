import type { DeliveryOutcome, Destination } from '../../destinations/destination.ts';
import { errorText } from '../../model/error-text.ts';
import type { UsageEvent } from '../../model/event.ts';
import { omitUndefined } from '../../model/omit-undefined.ts';
import { type BlockReason, graver } from '../delivery-result.ts';

/** What the other side said for good about an event; `provision`: it does not know the tenant. */
export type FinalAnswer =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'rejected'; readonly reason: string }
  | { readonly kind: 'provision'; readonly reason: string };

export interface SendReport {
  /** By the event's index; what is missing is to be sent again. */
  readonly answers: ReadonlyMap<number, FinalAnswer>;
  readonly blocked?: BlockReason;
}

/**
 * Sends events and narrows a refusal down: what is refused as a whole is sent again in halves, until
 * the event at fault stands alone and is rejected. Stops at the first reason that blocks, since what
 * comes after it would meet the same.
 */
export async function sendBatch(
  destination: Pick<Destination, 'send'>,
  events: readonly UsageEvent[],
  signal: AbortSignal,
): Promise<SendReport> {
  const answers = new Map<number, FinalAnswer>();
  let blocked: BlockReason | undefined;

  const send = async (indexes: readonly number[]): Promise<void> => {
    const batch = indexes.flatMap((index) => events[index] ?? []);
    const outcomes = await attempt(destination, batch, signal);
    const refused: number[] = [];
    for (const [position, index] of indexes.entries()) {
      const outcome = outcomes[position] ?? UNANSWERED;
      if (outcome.kind === 'split') {
        if (indexes.length > 1) refused.push(index);
        else answers.set(index, { kind: 'rejected', reason: outcome.reason });
      } else if (outcome.kind === 'retry' || outcome.kind === 'hold') {
        blocked = graver(blocked, outcome);
      } else {
        answers.set(index, outcome);
      }
    }
    const middle = Math.ceil(refused.length / 2);
    for (const half of [refused.slice(0, middle), refused.slice(middle)]) {
      if (half.length > 0 && blocked === undefined) await send(half);
    }
  };

  await send(events.map((_, index) => index));
  return { answers, ...omitUndefined({ blocked }) };
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
    const reason = `send failed: ${errorText(error)}`;
    return events.map(() => ({ kind: 'retry', reason }));
  }
}
