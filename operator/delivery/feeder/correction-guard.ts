import type { Destination } from '../../destinations/destination.ts';
import { correctedSequence, isCorrection, isNegative } from '../../model/correction.ts';
import { quote } from '../../model/validate-event.ts';
import type { DeliveryResult, QueuedEvent } from '../delivery-result.ts';
import type { LateLines } from '../late/late-lines.ts';
import type { DeadLetterIndex } from '../records/dead-letters.ts';
import type { DeliveryRecords } from '../records/delivery-records.ts';
import { isUnsent } from '../records/sequence-sets.ts';
import type { Pending } from './pending.ts';

/**
 * Returns the corrections that must not be sent, by sequence number. With a result they are
 * settled. Without one they wait for the next attempt.
 */
export type CorrectionGuard = (
  queued: readonly QueuedEvent[],
) => Promise<ReadonlyMap<number, { readonly result?: DeliveryResult }>>;

/**
 * Creates the guard of corrections. A correction takes back delivered usage, so it is sent only
 * after the corrected event is delivered for certain (docs/reference/events.md#corrections).
 * Otherwise a customer would get money for nothing.
 */
export function createCorrectionGuard(options: {
  readonly destination: Pick<Destination, 'limits'>;
  readonly records: Pick<DeliveryRecords, 'unsent'>;
  readonly deadLetters: Pick<DeadLetterIndex, 'has'>;
  /** Late usage that is billed separately. */
  readonly lateLines: Pick<LateLines, 'has'>;
  readonly pending: Pick<Pending, 'hasPassed' | 'isDelivered'>;
}): CorrectionGuard {
  const { destination, records, deadLetters, lateLines, pending } = options;
  return async (queued) => {
    const refused = new Map<number, { readonly result?: DeliveryResult }>();
    const corrections = queued.filter(({ event }) => isCorrection(event));
    if (corrections.length === 0) return refused;
    const unsent = await records.unsent();
    const underWay = new Set(queued.map(({ sequence }) => sequence));
    const problemOf = ({ event }: QueuedEvent): string | undefined => {
      const corrected = correctedSequence(event);
      const which = `corrects event ${quote(event.properties?.['corrects'])}`;
      if (!destination.limits.negativeQuantities && isNegative(event.quantity)) {
        return `${which}, which this destination cannot take back by an event: enter it there by hand, then discard this one`;
      }
      if (!Number.isSafeInteger(corrected))
        return `${which}, whose position in the ledger is unknown`;
      if (deadLetters.has(corrected)) {
        return `${which}, which is a dead letter here: replay or discard that one first`;
      }
      if (isUnsent(unsent, corrected) && !lateLines.has(corrected))
        return `${which}, which was never sent here: discard this one`;
      return undefined;
    };
    for (const one of corrections) {
      const corrected = correctedSequence(one.event);
      // Its outcome is on record only after the cursor has passed it.
      const isOpen =
        Number.isSafeInteger(corrected) &&
        !pending.hasPassed(corrected) &&
        !pending.isDelivered(corrected);
      const reason = isOpen || underWay.has(corrected) ? undefined : problemOf(one);
      if (reason !== undefined) refused.set(one.sequence, { result: { kind: 'dead', reason } });
      else if (isOpen || underWay.has(corrected)) refused.set(one.sequence, {});
    }
    return refused;
  };
}
