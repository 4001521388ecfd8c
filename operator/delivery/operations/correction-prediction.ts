import type { Destination } from '../../destinations/destination.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { QueuedEvent } from '../delivery-result.ts';
import type { Pending } from '../feeder/pending.ts';
import { ageProblem } from '../feeder/send-pass.ts';
import type { ParkedTenants } from '../lanes/parked-tenants.ts';
import type { LateLines } from '../late/late-lines.ts';
import type { DeadLetterIndex } from '../records/dead-letters.ts';
import type { DeliveryRecords } from '../records/delivery-records.ts';
import { isUnsent } from '../records/sequence-sets.ts';

/** The state of an event at a destination. It decides the outcome of a correction there. */
export interface CorrectionPrediction {
  /**
   * 1. `delivered`: the difference is sent.
   * 2. `waiting`: the event is sent first.
   * 3. `dead-letter`, `never-sent`, `too-old`: the correction becomes a dead letter.
   * 4. `not-wanted`: the destination gets neither.
   * 5. `cannot-start`: unknown until the destination starts.
   */
  readonly state:
    | 'delivered'
    | 'waiting'
    | 'dead-letter'
    | 'never-sent'
    | 'too-old'
    | 'not-wanted'
    | 'cannot-start';
  /** Whether a negative difference can be sent there. */
  readonly takesNegative: boolean;
}

export type PredictCorrection = (stored: QueuedEvent) => Promise<CorrectionPrediction>;

/**
 * Predicts what the correction guard will do (docs/reference/events.md#corrections). Changes
 * nothing.
 */
export function createCorrectionPrediction(options: {
  readonly destination: Pick<Destination, 'limits'>;
  readonly clock: Clock;
  readonly records: Pick<DeliveryRecords, 'unsent'>;
  readonly deadLetters: Pick<DeadLetterIndex, 'has'>;
  /** Late usage that is billed separately. */
  readonly lateLines: Pick<LateLines, 'has'>;
  readonly parked: Pick<ParkedTenants, 'list'>;
  readonly pending: Pick<Pending, 'isDelivered'>;
  readonly wants: (event: QueuedEvent['event']) => boolean;
  /** Returns the cursor; undefined without one. */
  readonly cursor: () => number | undefined;
}): PredictCorrection {
  const { destination, clock, records, deadLetters, lateLines, parked, pending, wants, cursor } =
    options;
  const { maxAgeMs, negativeQuantities = false } = destination.limits;
  const statusOf = async ({ sequence, event }: QueuedEvent) => {
    if (!wants(event)) return 'not-wanted';
    if (deadLetters.has(sequence)) return 'dead-letter';
    if (lateLines.has(sequence)) return 'delivered';
    if (isUnsent(await records.unsent(), sequence)) return 'never-sent';
    if (ageProblem(event.window_start, maxAgeMs, clock.now()) !== undefined) return 'too-old';
    const isParked = parked.list().some(({ tenant }) => tenant === event.tenant);
    const isOpen = sequence > (cursor() ?? 0) && !pending.isDelivered(sequence);
    return isOpen || isParked ? 'waiting' : 'delivered';
  };
  return async (stored) => ({
    state: await statusOf(stored),
    takesNegative: negativeQuantities,
  });
}
