import type { RawObject } from '../../../operator/kubernetes/source.ts';
import { isRecord } from '../../../operator/model/is-record.ts';
import type { Random } from '../../faults/random.ts';
import { hostileText, hostileValue, NAMES } from './values.ts';

/** A place inside an object. */
type Path = readonly (string | number)[];

/**
 * A copy of an object with one to four things changed somewhere in it: a value that is another, or of
 * another type, a key that has another name, an entry that is there twice, or none at all.
 */
export function mutated(object: RawObject, random: Random): RawObject {
  let result: unknown = structuredClone(object);
  for (let left = random.between(1, 4); left > 0; left -= 1) {
    const paths = pathsOf(result);
    if (paths.length === 0) break;
    result = changed(result, random.pick(paths), random.pick(CHANGES), random);
  }
  return isRecord(result) ? result : object;
}

/** What is copied may hold copies itself: without a bound it would be more than a text can hold. */
const MOST_COPIED_CHARACTERS = 8 * 1024 * 1024;

type Change = (parent: Record<string, unknown> | unknown[], key: string, random: Random) => void;

const CHANGES: readonly Change[] = [
  (parent, key, random) => set(parent, key, hostileValue(random)),
  (parent, key, random) => set(parent, key, hostileValue(random)),
  (parent, key, random) => set(parent, key, hostileText(random)),
  (parent, key) => {
    if (Array.isArray(parent)) parent.splice(Number(key), 1);
    else delete parent[key];
  },
  (parent, key, random) => {
    if (Array.isArray(parent)) {
      const [entry] = parent.slice(Number(key));
      const most = MOST_COPIED_CHARACTERS / (JSON.stringify(entry ?? null).length + 1);
      const copies = Math.min(random.pick([1, 100, 5_000]), most);
      for (let made = 0; made < copies; made += 1) parent.push(entry);
      return;
    }
    const value = parent[key];
    delete parent[key];
    set(parent, random.pick(NAMES), value);
  },
  (parent, key, random) => {
    if (Array.isArray(parent)) return;
    for (const name of NAMES) set(parent, name, random.chance(0.5) ? parent[key] : '1');
  },
];

function set(parent: Record<string, unknown> | unknown[], key: string, value: unknown): void {
  Object.defineProperty(parent, key, {
    value,
    enumerable: true,
    writable: true,
    configurable: true,
  });
}

function changed(root: unknown, path: Path, change: Change, random: Random): unknown {
  let parent: unknown = root;
  for (const key of path.slice(0, -1)) parent = childOf(parent, key);
  const last = path.at(-1);
  if (last === undefined) return root;
  if (Array.isArray(parent)) change(parent, String(last), random);
  else if (isRecord(parent)) change(parent, String(last), random);
  return root;
}

function childOf(parent: unknown, key: string | number): unknown {
  if (Array.isArray(parent)) return parent[Number(key)];
  return isRecord(parent) ? parent[key] : undefined;
}

/** Every place in a value but the whole; at most some hundreds. */
function pathsOf(value: unknown): readonly Path[] {
  const paths: Path[] = [];
  const waiting: { readonly path: Path; readonly value: unknown }[] = [{ path: [], value }];
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    const { path } = next;
    if (path.length > 0) paths.push(path);
    if (paths.length > 400) break;
    const inside = next.value;
    if (Array.isArray(inside)) {
      for (const [key, each] of inside.slice(0, 20).entries()) {
        waiting.push({ path: [...path, key], value: each });
      }
    } else if (isRecord(inside)) {
      for (const [key, each] of Object.entries(inside).slice(0, 60)) {
        waiting.push({ path: [...path, key], value: each });
      }
    }
  }
  return paths;
}
