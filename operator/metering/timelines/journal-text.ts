import type { Projected } from '../../kubernetes/source.ts';
import { isRecord } from '../../model/is-record.ts';
import { spanOfVersion2 } from './older-journal.ts';
import { type Api, createSharedValues, shareText } from './shared-values.ts';
import type { Span } from './timeline.ts';
import type { Tracked } from './timeline-rules.ts';

/**
 * Version of the text of a timeline in the journal, which is JSON with three additions.
 * `{"$bigint": "…"}` and `{"$map": […]}` stand for what JSON lacks. `{"$same": n}` repeats labels,
 * requests or devices: spans mostly share them with the object.
 */
const VERSION = 3;

/**
 * Version of the projections. Raise it when a projection reads more or other fields. A resumed
 * watch does not send unchanged objects again, so stored ones are then compared with a list.
 */
export const PROJECTION_VERSION = 3;

interface Stored {
  readonly v: typeof VERSION;
  readonly view: Projected;
  readonly spans: readonly StoredSpan[];
  /** The spans that closed windows billed, where a late fact has changed them since. */
  readonly billed?: readonly StoredSpan[];
  readonly versionAt: number;
  readonly finished: boolean;
  readonly gone: boolean;
}

interface StoredSpan {
  readonly from: number;
  /** Null while the span is open. */
  readonly to: number | null;
  readonly state: unknown;
  readonly uncertainFrom?: number;
  readonly uncertainTo?: number;
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
 * Returns the timeline of a text written by {@link encodeTimeline}, also by version 2 of it;
 * undefined for other texts and versions. States are not validated, because the text comes from
 * the operator's own ledger.
 */
export function decodeTimeline<T extends Projected, S>(
  text: string,
  api: Api = {},
): Tracked<T, S> | undefined {
  const stored = inPresentForm(decodeJson(text, api));
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

/** Writes a value as JSON, with bigints and maps. */
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

/** Reads a text written by {@link encodeJson}; undefined when it is not JSON. */
export function decodeJson(text: string, api: Api = {}): unknown {
  const read: unknown[] = [];
  try {
    return JSON.parse(text, (key, part: unknown) => revive(key, part, read, api));
  } catch {
    return undefined;
  }
}

/** Fields whose values many objects share, as observed objects do. */
const COMMON: ReadonlySet<string> = new Set(['labels', 'requests']);
/** Fields whose values an object and its spans share. */
const SHARED: ReadonlySet<string> = new Set([...COMMON, 'devices']);
/** Fields whose texts many objects have in common. */
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

/** Returns a timeline of version 2 as this version stores it, and other values unchanged. */
function inPresentForm(value: unknown): unknown {
  if (!isRecord(value) || value['v'] !== 2) return value;
  const { spans, billed } = value;
  return { ...value, v: VERSION, spans: spansOf(spans), billed: spansOf(billed) };
}

function spansOf(spans: unknown): unknown {
  return Array.isArray(spans) ? spans.map((span: object) => spanOfVersion2(span)) : spans;
}

function isStored(value: unknown): value is Stored {
  if (typeof value !== 'object' || value === null) return false;
  const { v, view, spans } = value as Partial<Stored>;
  return v === VERSION && typeof view?.uid === 'string' && Array.isArray(spans);
}
