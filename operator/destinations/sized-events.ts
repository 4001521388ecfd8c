import type { UsageEvent } from '../model/event.ts';
import type { DestinationLimits } from './destination.ts';

const BATCH_EVENTS = 500;
/** Common limits of receivers are twice as high. A call that is too large makes it smaller. */
const BATCH_BYTES = 512 * 1024;
const SMALLEST_BATCH_BYTES = 16 * 1024;
/** The minimum of docs/how-to/destinations/webhook.md#what-you-do-at-the-receiver. */
const LEAST_ID_MEMORY_MS = 24 * 3_600_000;

/**
 * The CloudEvents of a call. Encodes each event once, although it is sized first and sent later:
 * the next call mostly sends the events that were sized last.
 */
export class SizedEvents<T> {
  readonly #encode: (event: UsageEvent) => T;
  readonly #bytesOf: (encoded: T) => number;
  readonly #sized = new Map<UsageEvent, T>();
  #batchBytes = BATCH_BYTES;

  /** `bytesOf`: the bytes that an encoded event takes up in a call. */
  constructor(encode: (event: UsageEvent) => T, bytesOf: (encoded: T) => number) {
    this.#encode = encode;
    this.#bytesOf = bytesOf;
  }

  get limits(): DestinationLimits {
    return {
      batchEvents: BATCH_EVENTS,
      batchBytes: { most: this.#batchBytes, sizeOf: (event) => this.#bytesOf(this.#size(event)) },
      negativeQuantities: true,
      leastIdMemoryMs: LEAST_ID_MEMORY_MS,
    };
  }

  /** Returns the encoded events of a call and discards all others. */
  take(events: readonly UsageEvent[]): readonly T[] {
    const encoded = events.map((event) => this.#sized.get(event) ?? this.#encode(event));
    this.#sized.clear();
    return encoded;
  }

  /** Makes the next calls half as large as one of `bytes` that was too large. */
  halve(bytes: number): void {
    const half = Math.floor(Math.min(this.#batchBytes, bytes) / 2);
    this.#batchBytes = Math.max(SMALLEST_BATCH_BYTES, half);
  }

  #size(event: UsageEvent): T {
    if (this.#sized.size >= BATCH_EVENTS) this.#sized.clear();
    const encoded = this.#encode(event);
    this.#sized.set(event, encoded);
    return encoded;
  }
}
