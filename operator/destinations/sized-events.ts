import type { UsageEvent } from '../model/event.ts';

/**
 * Encodes each event once, although it is sized first and sent later: the next call mostly sends
 * the events that were sized last.
 */
export class SizedEvents<T> {
  readonly #encode: (event: UsageEvent) => T;
  readonly #most: number;
  readonly #sized = new Map<UsageEvent, T>();

  /** `most`: the number of encoded events to retain for the next call. */
  constructor(encode: (event: UsageEvent) => T, most: number) {
    this.#encode = encode;
    this.#most = most;
  }

  /** Encodes an event that the next call may send. */
  size(event: UsageEvent): T {
    if (this.#sized.size >= this.#most) this.#sized.clear();
    const encoded = this.#encode(event);
    this.#sized.set(event, encoded);
    return encoded;
  }

  /** Returns the encoded events of a call and discards all others. */
  take(events: readonly UsageEvent[]): readonly T[] {
    const encoded = events.map((event) => this.#sized.get(event) ?? this.#encode(event));
    this.#sized.clear();
    return encoded;
  }
}
