import type { Projected } from '../../kubernetes/source.ts';
import { type Api, createSharedValues, shareText } from './shared-values.ts';
import type { Span } from './timeline.ts';
import type { Tracked } from './timeline-rules.ts';

/**
 * The text of a timeline in the journal: versioned JSON, in which `{"$bigint": "…"}` and
 * `{"$map": […]}` stand for what JSON cannot hold, and `{"$same": n}` for labels, requests or devices
 * that were written out before: those of a span are mostly those of the object.
 */
const VERSION = 2;

/**
 * What projections take out of objects. It is raised whenever one of them takes out more, or something else:
 * objects that do not change are not sent again where a watch resumes, so what an older release has made of
 * them is compared with a list.
 */
export const PROJECTION_VERSION = 3;

interface Stored {
  readonly v: typeof VERSION;
  readonly view: Projected;
  readonly spans: readonly StoredSpan[];
  /** What closed windows billed, where a late fact has changed it since. */
  readonly billed?: readonly StoredSpan[];
  readonly versionAt: number;
  readonly finished: boolean;
  readonly gone: boolean;
}

interface StoredSpan {
  readonly from: number;
  /** null while the span is open */
  readonly to: number | null;
  readonly state: unknown;
  readonly unsureFrom?: number;
  readonly unsureTo?: number;
}

export function encodeTimeline<T extends Projected, S>(timeline: Tracked<T, S>): string {
  const { view, spans, billed, versionAt, finished, gone } = timeline;
  const stored: Stored = {
    v: VERSION,
    view,
    spans: spans.map(storedSpan),
    ...(billed === undefined ? {} : { billed: billed.map(storedSpan) }),
    versionAt,
    finished,
    gone,
  };
  return encodeJson(stored);
}

/**
 * The timeline of a text written by {@link encodeTimeline}; undefined when it is none, or of another
 * version. What the text says of states is believed: it comes out of the own ledger.
 */
export function decodeTimeline<T extends Projected, S>(
  text: string,
  api: Api = {},
): Tracked<T, S> | undefined {
  const stored = decodeJson(text, api);
  if (!isStored(stored)) return undefined;
  const { view, versionAt, finished, gone } = stored;
  return {
    uid: view.uid,
    namespace: view.namespace,
    name: view.name,
    spans: stored.spans.map(liveSpan<S>),
    versionAt,
    finished,
    gone,
    billed: stored.billed?.map(liveSpan<S>),
    dirty: false,
    view: view as T,
  };
}

function storedSpan({ to, ...span }: Span<unknown>): StoredSpan {
  return { ...span, to: to === Infinity ? null : to };
}

function liveSpan<S>({ to, state, ...span }: StoredSpan): Span<S> {
  return { ...span, to: to ?? Infinity, state: state as S };
}

/** JSON with bigints and maps in it. */
export function encodeJson(value: unknown): string {
  const written = new Map<object, number>();
  return JSON.stringify(value, (key, part: unknown) => {
    if (typeof part === 'bigint') return { $bigint: String(part) };
    if (typeof part !== 'object' || part === null) return part;
    if (SHARED.has(key)) {
      const before = written.get(part);
      if (before !== undefined) return { $same: before };
      written.set(part, written.size);
    }
    return part instanceof Map ? { $map: [...part] } : part;
  });
}

/** The value of a text written by {@link encodeJson}; undefined when it is no JSON. */
export function decodeJson(text: string, api: Api = {}): unknown {
  const read: unknown[] = [];
  try {
    return JSON.parse(text, (key, part: unknown) => revive(key, part, read, api));
  } catch {
    return undefined;
  }
}

/** Parts that a great many objects share, as they do when they are observed. */
const COMMON: ReadonlySet<string> = new Set(['labels', 'requests']);
/** Parts that an object and its spans share. */
const SHARED: ReadonlySet<string> = new Set([...COMMON, 'devices']);
/** Names that a great many objects have in common. */
const NAMES: ReadonlySet<string> = new Set(['namespace', 'node']);
const shared = createSharedValues<object>();

function revive(key: string, part: unknown, read: unknown[], api: Api): unknown {
  if (typeof part === 'string' && NAMES.has(key)) return shareText(part, api);
  if (typeof part !== 'object' || part === null) return part;
  if ('$bigint' in part) return BigInt(String(part.$bigint));
  if ('$same' in part) return read[Number(part.$same)];
  const plain = '$map' in part ? new Map(part.$map as [unknown, unknown][]) : part;
  if (!SHARED.has(key)) return plain;
  const value = COMMON.has(key) ? shared(api, [encodeJson(plain)], () => plain) : plain;
  read.push(value);
  return value;
}

function isStored(value: unknown): value is Stored {
  if (typeof value !== 'object' || value === null) return false;
  const { v, view, spans } = value as Partial<Stored>;
  return v === VERSION && typeof view?.uid === 'string' && Array.isArray(spans);
}
