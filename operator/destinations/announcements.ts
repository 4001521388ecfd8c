import type { Clock } from '../telemetry/clock.ts';
import type { LifecycleEvent } from './cloud-events.ts';

/** What receivers of CloudEvents are told beside usage: the catalogue and tenants. */
export type Announced = Pick<LifecycleEvent, 'type' | 'subject' | 'data'>;

/**
 * Names announcements by the moment at which they were first made: the same at every attempt, so that a
 * receiver recognises a repeat, and another one when there is something new to say.
 */
export interface Announcements {
  /** The event that says it; `key` names what it is about. */
  event(key: string, announced: Announced): LifecycleEvent;
  /** The next one about it is new, whatever it says. */
  forget(key: string): void;
}

/** Starts with nothing said. `source` is that of the events. */
export function createAnnouncements(source: string, clock: Clock): Announcements {
  const said = new Map<string, { readonly data: string; readonly at: number }>();
  return {
    event: (key, announced) => {
      const data = JSON.stringify(announced.data);
      const known = said.get(key);
      const time = known?.data === data ? known.at : clock.now();
      said.set(key, { data, at: time });
      return { ...announced, id: `${key}-${Math.floor(time / 1000)}`, source, time };
    },
    forget: (key) => void said.delete(key),
  };
}
