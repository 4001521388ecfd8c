import type { RawObject } from '../../../operator/kubernetes/source.ts';
import { isRecord } from '../../../operator/model/is-record.ts';

/** An object's or a collection's place, read off a path of a Kubernetes API. */
export interface Place {
  /** The collection's path without a namespace, such as `/apis/apps/v1/statefulsets`. */
  readonly collection: string;
  readonly namespace: string;
  /** Empty for a collection. */
  readonly name: string;
}

export interface StoreChange {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly version: number;
  readonly object: RawObject;
}

type Follower = (change: StoreChange) => void;

/** Watches are told what came within this many changes; older ones begin anew. */
const STORED = 5_000;

/** `undefined` for what is no path of an API. */
export function placeOf(path: string): Place | undefined {
  const [, root, rest = ''] = /^(\/api\/v1|\/apis\/[^/]+\/[^/]+)\/(.+)$/.exec(path) ?? [];
  if (root === undefined) return undefined;
  const words = rest.split('/').map(decodeURIComponent);
  const isNamespaced = words[0] === 'namespaces' && words.length > 2;
  const [plural = '', name = ''] = isNamespaced ? words.slice(2) : words;
  return { collection: `${root}/${plural}`, namespace: isNamespaced ? (words[1] ?? '') : '', name };
}

/** The objects of one API server, and their changes in order. It keeps what it is given. */
export class ObjectStore {
  #version = 1_000;
  readonly #collections = new Map<string, Map<string, RawObject>>();
  readonly #changes = new Map<string, StoreChange[]>();
  readonly #followers = new Map<string, Set<Follower>>();

  get version(): number {
    return this.#version;
  }

  get({ collection, namespace, name }: Place): RawObject | undefined {
    return this.#collections.get(collection)?.get(`${namespace}/${name}`);
  }

  /** Those of a collection, of one namespace where the place names one. */
  list({ collection, namespace }: Place): readonly RawObject[] {
    const all = [...(this.#collections.get(collection) ?? [])];
    const prefix = `${namespace}/`;
    return all.flatMap(([key, object]) =>
      namespace === '' || key.startsWith(prefix) ? [object] : [],
    );
  }

  put(place: Place, object: RawObject): RawObject {
    this.#version += 1;
    const { collection, namespace, name } = place;
    const held = this.#collections.get(collection) ?? new Map<string, RawObject>();
    this.#collections.set(collection, held);
    const key = `${namespace}/${name}`;
    const before = held.get(key);
    const metadata = {
      name,
      ...(namespace === '' ? {} : { namespace }),
      uid: `uid-${collection.split('/').at(-1)}-${namespace}-${name}`,
      creationTimestamp: new Date().toISOString().replace(/\.\d+Z$/, 'Z'),
      ...recordOf(before?.['metadata']),
      ...recordOf(object['metadata']),
      resourceVersion: String(this.#version),
    };
    const stored = { ...object, metadata };
    held.set(key, stored);
    this.#report(collection, before === undefined ? 'ADDED' : 'MODIFIED', stored);
    return stored;
  }

  delete(place: Place): void {
    const { collection, namespace, name } = place;
    const key = `${namespace}/${name}`;
    const before = this.#collections.get(collection)?.get(key);
    if (before === undefined) return;
    this.#version += 1;
    this.#collections.get(collection)?.delete(key);
    const metadata = { ...recordOf(before['metadata']), resourceVersion: String(this.#version) };
    this.#report(collection, 'DELETED', { ...before, metadata });
  }

  /** Everything of a namespace, and the namespace. */
  deleteNamespace(namespace: string): void {
    for (const [collection, held] of this.#collections) {
      for (const key of held.keys()) {
        if (!key.startsWith(`${namespace}/`)) continue;
        this.delete({ collection, namespace, name: key.slice(namespace.length + 1) });
      }
    }
    this.delete({ collection: '/api/v1/namespaces', namespace: '', name: namespace });
  }

  /**
   * Tells of every change after the version, and of what comes; gives the way to stop, or undefined
   * when that version is forgotten.
   */
  follow(collection: string, version: number, follower: Follower): (() => void) | undefined {
    const changes = this.#changes.get(collection) ?? [];
    const [oldest] = changes;
    if (changes.length >= STORED && oldest !== undefined && oldest.version > version + 1) {
      return undefined;
    }
    for (const change of changes) if (change.version > version) follower(change);
    const followers = this.#followers.get(collection) ?? new Set();
    this.#followers.set(collection, followers);
    followers.add(follower);
    return () => void followers.delete(follower);
  }

  #report(collection: string, type: StoreChange['type'], object: RawObject): void {
    const change = { type, version: this.#version, object };
    const changes = this.#changes.get(collection) ?? [];
    this.#changes.set(collection, changes);
    changes.push(change);
    if (changes.length > 2 * STORED) changes.splice(0, STORED);
    for (const follower of this.#followers.get(collection) ?? []) follower(change);
  }
}

/** An object without what API servers set themselves, whatever a client says. */
export function asClientsSend(object: RawObject): RawObject {
  const { creationTimestamp: _date, uid: _uid, ...metadata } = recordOf(object['metadata']);
  return { ...object, metadata };
}

export function recordOf(value: unknown): RawObject {
  return isRecord(value) ? value : {};
}
