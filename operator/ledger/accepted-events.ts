import type { UsageEvent } from '../model/event.ts';
import type { EventOutcome } from './ledger.ts';
import { sameCharge } from './same-charge.ts';
import type { EncodedEvent } from './writer.ts';

/** Selects the events to store: each id once (docs/reference/ledger-format.md#promises, P3). */
export class AcceptedEvents<T extends EncodedEvent> {
  /** Events to store, in the order of their sequence numbers. */
  readonly events: T[] = [];
  /** Events that have the id of a stored event and differ from it. */
  readonly conflicts: UsageEvent[] = [];
  readonly #byId = new Map<string, UsageEvent>();
  readonly #deduplicate: boolean;

  constructor(deduplicate = true) {
    this.#deduplicate = deduplicate;
  }

  /** Adds an event. `stored` is the stored event with its id, if there is one. */
  offer(offer: T, stored: UsageEvent | undefined): EventOutcome {
    const { event } = offer;
    const first = this.#byId.get(event.id) ?? stored;
    if (first === undefined) {
      if (this.#deduplicate) this.#byId.set(event.id, event);
      this.events.push(offer);
      return 'accepted';
    }
    if (sameCharge(first, event)) return 'duplicate';
    this.conflicts.push(event);
    return 'conflict';
  }
}
