import { hash } from 'node:crypto';

/** Ids that were given out, by {@link placeKey}; kept for as long as the same id might come again. */
export type AssignedIds = ReadonlyMap<string, string>;

/** The longest customer id. */
const LONGEST_ID = 128;
const HASH_DIGITS = 8;

/** A tenant cluster's place, the key of {@link AssignedIds}; an external one's is in no namespace. */
export interface Place {
  readonly namespace: string;
  readonly name: string;
  /** Where the custom resource is that stands for it, if one does. */
  readonly home?: string;
  /** The kind of tenants that it is of; absent is vCluster or external. */
  readonly source?: string;
}

/** `<namespace>/<name>`, after the kind and a colon, which is in no name, where that is another kind than vCluster. */
export function placeKey({ namespace: own, home, name, source }: Place): string {
  const namespace = home ?? own;
  const place = `${namespace}/${name}`;
  return source === undefined || isPlain(source) ? place : `${source}:${place}`;
}

/** Tenant clusters of vCluster and external ones were there before there were kinds: their ids name none. */
function isPlain(source: string): boolean {
  return source === 'workload' || source === 'external';
}

/**
 * The id of each place, in the order given, and those that are new. An id that was given out stays;
 * a new one is `tenant-<namespace>-<name>`, `external-<name>` or `<kind>-[<namespace>-]<name>`, or, where that belongs to another place or is
 * too long, the same ending in `-<8 hex of its hash>` (docs/explanation/discovery.md#ids).
 */
export function assignIds(
  places: readonly Place[],
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

function plainId({ namespace: own, home, name, source }: Place): string {
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
