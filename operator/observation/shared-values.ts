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

const DEFAULT_LIMIT = 50_000;

/**
 * Pools of shared immutable values, one for each API, so that nobody fills or fills in another's. It is
 * an economy only: a full pool is emptied and equal values may then exist twice, so nothing may
 * depend on identity for being right.
 */
export function createSharedValues<T>(limit = DEFAULT_LIMIT): SharedValues<T> {
  const pools = new WeakMap<Api, Map<string, T>>();
  return (api, parts, make) => {
    let pool = pools.get(api);
    if (pool === undefined) pools.set(api, (pool = new Map()));
    const key = keyOf(parts);
    const known = pool.get(key);
    if (known !== undefined) return known;
    if (pool.size >= limit) pool.clear();
    const value = make();
    pool.set(key, value);
    return value;
  };
}

const texts = createSharedValues<string>();

/** The one copy of a text that many objects of an API have in common, as the name of a namespace or of a node. */
export function shareText(text: string, api: Api = API_OF_HOST): string {
  return texts(api, [text], () => text);
}

/** One text for these parts; different parts have different texts, whatever characters names hold. */
export function keyOf(parts: readonly KeyPart[]): string {
  return JSON.stringify(parts);
}
