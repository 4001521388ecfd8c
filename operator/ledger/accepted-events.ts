import type { UsageEvent } from '../model/event.ts';
import type { EventOutcome } from './ledger.ts';
import { sameCharge } from './same-charge.ts';
import type { EncodedEvent } from './writer.ts';

/** Which events of a batch are to be stored: an id is stored once (docs/reference/ledger-format.md#promises, P3). */
export class AcceptedEvents<T extends EncodedEvent> {
  /** To be stored, in the order of their numbers. */
  readonly events: T[] = [];
  /** Events that had the id of a stored one and differed from it. */
  readonly conflicts: UsageEvent[] = [];
  readonly #byId = new Map<string, UsageEvent>();
  readonly #deduplicate: boolean;

  constructor(deduplicate = true) {
    this.#deduplicate = deduplicate;
  }

  /** `stored` is the event that is stored with its id, if there is one. */
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
