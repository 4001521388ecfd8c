import { hash } from 'node:crypto';

/** Assigned ids by {@link placeKey}. Kept as long as the same id could be needed again. */
export type AssignedIds = ReadonlyMap<string, string>;

/** The longest customer id. */
const LONGEST_ID = 128;
const HASH_DIGITS = 8;

/**
 * The place of a tenant cluster, which is the key of {@link AssignedIds}. An external one has no
 * namespace.
 */
export interface ClusterPlace {
  readonly namespace: string;
  readonly name: string;
  /** Namespace of the custom resource that represents it, if there is one. */
  readonly home?: string;
  /** Its kind of tenants; absent for vCluster and external ones. */
  readonly source?: string;
}

/**
 * `<namespace>/<name>`. Kinds other than vCluster and external have `<kind>:` in front; no name
 * contains a colon.
 */
export function placeKey({ namespace: own, home, name, source }: ClusterPlace): string {
  const namespace = home ?? own;
  const place = `${namespace}/${name}`;
  return source === undefined || isPlain(source) ? place : `${source}:${place}`;
}

/** Ids of vCluster and external tenant clusters contain no kind. */
function isPlain(source: string): boolean {
  return source === 'workload' || source === 'external';
}

/**
 * The id of each place in the given order, and the new ones. An assigned id stays.
 * 1. A new id is `tenant-<namespace>-<name>`, `external-<name>` or `<kind>-[<namespace>-]<name>`.
 * 2. If another place has that id, or it is too long, it ends in `-<8 hex of its hash>`
 *    (docs/explanation/discovery.md#ids).
 */
export function assignIds(
  places: readonly ClusterPlace[],
  assigned: AssignedIds,
): { readonly ids: AssignedIds; readonly added: AssignedIds } {
  const ids = new Map<string, string>();
  const added = new Map<string, string>();
  const taken = new Set(assigned.values());
  for (const place of places) {
    const key = placeKey(place);
    const known = assigned.get(key) ?? added.get(key);
    const id = known ?? freeId(plainId(place), key, taken);
    ids.set(key, id);
    if (known !== undefined) continue;
    added.set(key, id);
    taken.add(id);
  }
  return { ids, added };
}

/** The customer id of a platform project (docs/explanation/discovery.md#ids). */
export function projectTenant(project: string): string {
  const id = `project-${project}`;
  return id.length <= LONGEST_ID ? id : hashed(id, project);
}

function plainId({ namespace: own, home, name, source }: ClusterPlace): string {
  const namespace = home ?? own;
  if (source !== undefined && !isPlain(source)) {
    // Names of these kinds may be any text.
    return `${source}-${namespace}-${name}`.replaceAll(/[^A-Za-z0-9.]+/g, '-').replace(/-$/, '');
  }
  return namespace === '' ? `external-${name}` : `tenant-${namespace}-${name}`;
}

function freeId(plain: string, key: string, taken: ReadonlySet<string>): string {
  if (plain.length <= LONGEST_ID && !taken.has(plain)) return plain;
  let id = hashed(plain, key);
  for (let attempt = 1; taken.has(id); attempt++) id = hashed(plain, `${key}/${attempt}`);
  return id;
}

function hashed(plain: string, of: string): string {
  const ending = `-${hash('sha256', of, 'hex').slice(0, HASH_DIGITS)}`;
  return plain.slice(0, LONGEST_ID - ending.length) + ending;
}
