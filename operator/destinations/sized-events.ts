import type { UsageEvent } from '../model/event.ts';

/**
 * Events as a destination encodes them, each of them once where it is sized before it is sent: what was sized last is
 * mostly what is sent next.
 */
export class SizedEvents<T> {
  readonly #encode: (event: UsageEvent) => T;
  readonly #most: number;
  readonly #sized = new Map<UsageEvent, T>();

  /** `most`: of those that are kept for the next call. */
  constructor(encode: (event: UsageEvent) => T, most: number) {
    this.#encode = encode;
    this.#most = most;
  }

  /** An event that may be sent with the next call. */
  size(event: UsageEvent): T {
    if (this.#sized.size >= this.#most) this.#sized.clear();
    const encoded = this.#encode(event);
    this.#sized.set(event, encoded);
    return encoded;
  }

  /** The events of a call. Nothing is kept for another one. */
  take(events: readonly UsageEvent[]): readonly T[] {
    const encoded = events.map((event) => this.#sized.get(event) ?? this.#encode(event));
    this.#sized.clear();
    return encoded;
  }
}
