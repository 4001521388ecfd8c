import type { Destination } from '../../destinations/destination.ts';
import { formatInstant } from '../../model/window.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { type InFlight, isForgotten } from '../records/in-flight.ts';
import type { SetAsideEvent } from '../records/delivery-records.ts';

const HOUR_MS = 3_600_000;

/** Letters that the destination may have taken by an attempt without an answer, and may have forgotten since. */
export interface Doubts {
  /** Which they are, and what becomes of them when they are sent once more; for people. */
  readonly text: string;
  /** The destination cannot be asked whether it has them. */
  readonly wantsForce: boolean;
  isUncertain(letter: SetAsideEvent): boolean;
}

/** Finds the doubtful ones of the letters that an operator sends once more; undefined where there are none. */
export type UncertainLetters = (
  letters: AsyncIterable<SetAsideEvent>,
) => Promise<Doubts | undefined>;

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
  const isDoubtful = (letter: SetAsideEvent): boolean => {
    if (idMemoryMs !== undefined) return inFlight.overdue([letter]).length > 0;
    const { unansweredSince } = letter;
    return unansweredSince !== undefined && isForgotten(unansweredSince, clock.now(), memoryMs);
  };
  return async (letters) => {
    let count = 0;
    let first: number | undefined;
    for await (const letter of letters) {
      if (!isDoubtful(letter)) continue;
      count += 1;
      const { unansweredSince = first } = letter;
      if (unansweredSince !== undefined) first = Math.min(unansweredSince, first ?? Infinity);
    }
    if (count === 0) return undefined;
    const since = first === undefined ? '' : `, the first on ${formatInstant(first)}`;
    const many = `${count} ${count === 1 ? 'event' : 'events'}`;
    const hours = `${memoryMs / HOUR_MS} hours`;
    const memory =
      idMemoryMs === undefined
        ? `need not remember ids longer than ${hours}`
        : `remembers ids for ${hours}`;
    const wantsForce = destination.verify === undefined;
    const effect = wantsForce
      ? 'what it has taken is billed twice'
      : 'it is asked first, and what it cannot tell is sent all the same';
    return {
      text: `${many} of which an earlier attempt had no answer${since}: the destination may have taken them, and ${memory}: ${effect}`,
      wantsForce,
      isUncertain: isDoubtful,
    };
  };
}
