import type { ReceivedEvent } from '../long/received.ts';
import type { Blind } from './figures.ts';

/** How far off events say that what nobody saw may be, seconds. */
export interface Uncertainty {
  /** Of all events. */
  readonly most: number;
  /** Of those in whose window no watch had to begin anew: what was missed was told by watches that went on. */
  readonly resumed: number;
}

export function uncertaintyOf(
  events: readonly ReceivedEvent[],
  blinds: readonly Blind[],
): Uncertainty {
  const relisted = blinds.filter(({ kinds }) => kinds.length > 0);
  const uncertain = events.map(({ window_start, window_end, properties }) => ({
    from: Date.parse(window_start),
    to: Date.parse(window_end),
    seconds: Number(properties?.['uncertain_seconds'] ?? 0),
  }));
  const most = (all: readonly { readonly seconds: number }[]): number =>
    all.reduce((largest, { seconds }) => Math.max(largest, seconds), 0);
  return {
    most: most(uncertain),
    resumed: most(
      uncertain.filter(({ from, to }) =>
        relisted.every((blind) => to <= blind.from || from >= blind.to),
      ),
    ),
  };
}
