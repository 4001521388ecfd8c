import { getHeapStatistics } from 'node:v8';

/** Measured with V8: an entry of a record or a map with a short text, and what a node's state repeats of it. */
const ENTRY_BYTES = 112;

/** About what a value takes up of the heap, in bytes: its entries, at any depth, and the characters of its texts. */
export function memoryOf(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (typeof value !== 'object' || value === null) return 0;
  const entries: Iterable<readonly [unknown, unknown]> =
    value instanceof Map || Array.isArray(value) ? value.entries() : Object.entries(value);
  let bytes = 0;
  for (const [key, part] of entries) {
    if (part !== undefined) bytes += ENTRY_BYTES + memoryOf(key) + memoryOf(part);
  }
  return bytes;
}

/** The part of V8's heap limit that the objects may take: 192 MiB of the 576 MiB that the manifests give. */
const HEAP_SHARE = 1 / 3;

/**
 * The memory that the objects of all tenant clusters' APIs share. One tenant cluster may hold as much as all of them
 * leave free. So the largest reaches its limit first, there is always room for small ones, and the sum is bounded:
 * `n` that hold all they may hold 1/(n+1) each.
 */
export class SharedMemory {
  readonly #most: number;
  readonly #held = new Map<object, number>();
  #sum = 0;

  constructor(most: number = getHeapStatistics().heap_size_limit * HEAP_SHARE) {
    this.#most = Math.floor(most);
  }

  /** Notes what an owner holds, in bytes. Returns the limit where that is more than all owners leave free. */
  report(owner: object, bytes: number): number | undefined {
    this.#sum += bytes - (this.#held.get(owner) ?? 0);
    if (bytes === 0) this.#held.delete(owner);
    else this.#held.set(owner, bytes);
    return bytes > this.#most - this.#sum ? this.#most : undefined;
  }
}
