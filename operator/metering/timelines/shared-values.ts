/** Whose objects share values: an API server. It is only compared, so that any object will do. */
export type Api = object;

/** The API server of the cluster that the operator runs in. */
export const API_OF_HOST: Api = Object.freeze({});

/** A part of what tells values apart. Names in it may hold any character. */
export type KeyPart = string | number | boolean | undefined;

/**
 * Gives equal values of an API's objects one identity, so that a hundred thousand pods of a few
 * shapes cost little memory. Values of different keys are never taken for one another.
 */
export type SharedValues<T> = (api: Api, key: readonly KeyPart[], make: () => T) => T;

/**
 * Pools of shared immutable values, one for each API, so that nobody fills or fills in another's. They hold only what
 * somebody else holds, so that objects that come and go leave nothing behind. It is an economy only: nothing may depend on
 * identity for being right.
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
    for (const [name, held] of this.#values) {
      if (held.deref() === undefined) this.#values.delete(name);
    }
    this.#sweptAt = Math.max(FEWEST_SWEPT, 2 * this.#values.size);
  }
}

/** Texts cannot be held weakly; a full pool is emptied, and equal ones may then exist twice. */
const MOST_TEXTS = 50_000;
const texts = new WeakMap<Api, Map<string, string>>();

/** The one copy of a text that many objects of an API have in common, as the name of a namespace or of a node. */
export function shareText(text: string, api: Api = API_OF_HOST): string {
  let pool = texts.get(api);
  if (pool === undefined) texts.set(api, (pool = new Map()));
  const known = pool.get(text);
  if (known !== undefined) return known;
  if (pool.size >= MOST_TEXTS) pool.clear();
  pool.set(text, text);
  return text;
}

/** One text for these parts; different parts have different texts, whatever characters names hold. */
export function keyOf(parts: readonly KeyPart[]): string {
  return JSON.stringify(parts);
}
