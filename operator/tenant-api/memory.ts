import { getHeapStatistics } from 'node:v8';

/**
 * Measured with V8: a record's or map's entry with a short text, and its copy in a node's state.
 */
const ENTRY_BYTES = 112;

/** Estimates a value's heap, bytes: entries at any depth, and the characters of texts. */
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

/** Share of V8's heap limit for the objects: 192 MiB of the 576 MiB in the manifests. */
const HEAP_SHARE = 1 / 3;

/**
 * The memory that the objects of all tenant APIs share. One tenant cluster may use as much as all
 * of them leave free.
 * 1. The largest reaches its limit first, and small ones always have room.
 * 2. The sum is bounded: `n` tenant clusters at their limit use 1/(n+1) each.
 */
export class SharedMemory {
  readonly #most: number;
  readonly #bytesOf = new Map<object, number>();
  #sum = 0;

  constructor(most: number = getHeapStatistics().heap_size_limit * HEAP_SHARE) {
    this.#most = Math.floor(most);
  }

  /** Records an owner's memory, bytes. Returns the limit if all owners leave less free. */
  report(owner: object, bytes: number): number | undefined {
    this.#sum += bytes - (this.#bytesOf.get(owner) ?? 0);
    if (bytes === 0) this.#bytesOf.delete(owner);
    else this.#bytesOf.set(owner, bytes);
    return bytes > this.#most - this.#sum ? this.#most : undefined;
  }
}
