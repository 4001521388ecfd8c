/** The API server whose objects share values. It is only compared, so any object serves. */
export type Api = object;

/** The API server of the cluster that the operator runs in. */
export const API_OF_HOST: Api = Object.freeze({});

/** A part of the key of a value. Texts may contain any character. */
export type KeyPart = string | number | boolean | undefined;

/**
 * Returns one identity for equal values of an API's objects, so that 100,000 pods of a few shapes
 * use little memory. Values of different keys are never mixed up.
 */
export type SharedValues<T> = (api: Api, key: readonly KeyPart[], make: () => T) => T;

/**
 * Creates pools of shared immutable values, one for each API, so that no API can fill another's
 * pool. They reference values weakly, so that objects that go leave nothing behind. Sharing only
 * saves memory: nothing may depend on identity for correctness.
 */
export function createSharedValues<T extends object>(): SharedValues<T> {
  const pools = new WeakMap<Api, Pool<T>>();
  return (api, parts, make) => {
    let pool = pools.get(api);
    if (pool === undefined) pools.set(api, (pool = new Pool()));
    const key = keyOf(parts);
    const known = pool.find(key);
    if (known !== undefined) return known;
    const value = make();
    pool.add(key, value);
    return value;
  };
}

const FEWEST_SWEPT = 1_000;

class Pool<T extends object> {
  readonly #values = new Map<string, WeakRef<T>>();
  #sweptAt = FEWEST_SWEPT;

  find(key: string): T | undefined {
    return this.#values.get(key)?.deref();
  }

  add(key: string, value: T): void {
    this.#values.set(key, new WeakRef(value));
    if (this.#values.size <= this.#sweptAt) return;
    for (const [name, reference] of this.#values) {
      if (reference.deref() === undefined) this.#values.delete(name);
    }
    this.#sweptAt = Math.max(FEWEST_SWEPT, 2 * this.#values.size);
  }
}

/**
 * Limit of a pool of texts. JavaScript cannot reference texts weakly, so a full pool is emptied;
 * equal texts may then exist twice.
 */
const MOST_TEXTS = 50_000;
const texts = new WeakMap<Api, Map<string, string>>();

/** Returns the shared copy of a text that many objects of an API have, such as a namespace. */
export function shareText(text: string, api: Api = API_OF_HOST): string {
  let pool = texts.get(api);
  if (pool === undefined) texts.set(api, (pool = new Map()));
  const known = pool.get(text);
  if (known !== undefined) return known;
  if (pool.size >= MOST_TEXTS) pool.clear();
  pool.set(text, text);
  return text;
}

/** Returns one text for these parts. Different parts have different texts, with any characters. */
export function keyOf(parts: readonly KeyPart[]): string {
  return JSON.stringify(parts);
}
