import { type Assembled, assembleEvents, type AssembleOptions } from '../metering/assemble.ts';
import type { Settled } from '../metering/credits.ts';
import type { Turn } from '../telemetry/turn.ts';

/** Some 10 ms of work on a slow machine. */
const CHARGES = 250;

/** As {@link assembleEvents} does, with time for others in between: a window may have ten thousand events. */
export async function assembleInTurns(
  settled: readonly Settled[],
  options: AssembleOptions,
  turn: Turn,
): Promise<Assembled> {
  const parts: Assembled[] = [];
  for (let first = 0; first < settled.length; first += CHARGES) {
    if (turn.isOver) await turn.next();
    parts.push(assembleEvents(settled.slice(first, first + CHARGES), options));
  }
  return {
    events: parts.flatMap(({ events }) => events),
    sources: parts.flatMap(({ sources }) => sources),
    refused: parts.flatMap(({ refused }) => refused),
  };
}
