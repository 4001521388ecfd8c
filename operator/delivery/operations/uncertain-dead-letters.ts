import type { Destination } from '../../destinations/destination.ts';
import { formatInstant } from '../../model/window.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { type InFlight, isForgotten } from '../records/in-flight.ts';
import type { SetAsideEvent } from '../records/delivery-records.ts';

const HOUR_MS = 3_600_000;

/** Letters that the destination may have accepted in an unanswered attempt, and forgotten since. */
export interface Uncertainty {
  /** For people: which letters, and the effect of a replay. */
  readonly text: string;
  /** The destination cannot be queried for them. */
  readonly wantsForce: boolean;
  isUncertain(letter: SetAsideEvent): boolean;
}

/** Finds the uncertain letters of a replay; undefined if there are none. */
export type UncertainLetters = (
  letters: AsyncIterable<SetAsideEvent>,
) => Promise<Uncertainty | undefined>;

export function createUncertainLetters({
  destination,
  inFlight,
  clock,
}: {
  readonly destination: Pick<Destination, 'limits' | 'verify'>;
  readonly inFlight: Pick<InFlight, 'overdue'>;
  readonly clock: Clock;
}): UncertainLetters {
  const { idMemoryMs, leastIdMemoryMs } = destination.limits;
  const memoryMs = idMemoryMs ?? leastIdMemoryMs;
  if (memoryMs === undefined) return async () => undefined;
  const isUncertain = (letter: SetAsideEvent): boolean => {
    if (idMemoryMs !== undefined) return inFlight.overdue([letter]).length > 0;
    const { unansweredSince } = letter;
    return unansweredSince !== undefined && isForgotten(unansweredSince, clock.now(), memoryMs);
  };
  return async (letters) => {
    let count = 0;
    let first: number | undefined;
    for await (const letter of letters) {
      if (!isUncertain(letter)) continue;
      count += 1;
      const { unansweredSince = first } = letter;
      if (unansweredSince !== undefined) first = Math.min(unansweredSince, first ?? Infinity);
    }
    if (count === 0) return undefined;
    const since = first === undefined ? '' : `, the first on ${formatInstant(first)}`;
    const many = `${count} ${count === 1 ? 'event' : 'events'}`;
    const hours = `${memoryMs / HOUR_MS} hours`;
    const memory =
      idMemoryMs === undefined ? `may forget ids after ${hours}` : `remembers ids for ${hours}`;
    const wantsForce = destination.verify === undefined;
    const effect = wantsForce
      ? 'events that it has accepted are billed twice'
      : 'the destination is queried first, and uncertain events are sent anyway';
    return {
      text: `${many} with an unanswered earlier attempt${since}: the destination may have accepted them, and ${memory}: ${effect}`,
      wantsForce,
      isUncertain,
    };
  };
}
