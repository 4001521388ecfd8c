import { isRecord } from '../model/is-record.ts';
import type { Clock } from '../telemetry/clock.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import { TimeSlice } from '../telemetry/time-slice.ts';
import { linkAbort, pause } from '../telemetry/abort.ts';
import { parseJson } from '../model/parse-json.ts';
import type { Connection, QueryValue } from './connection.ts';
import type { RequestFailure } from './outcome.ts';
import { identify, metadataOf, type ObjectIdentity } from './resource.ts';
import type { RawObject } from './source.ts';

/**
 * `expired`: the server discarded the version of the pages, so list again. `absent`: the API server
 * does not serve the resource.
 */
export type ListOutcome =
  | { readonly kind: 'complete'; readonly resourceVersion: string }
  | { readonly kind: 'expired' }
  | { readonly kind: 'absent' }
  | { readonly kind: 'failed'; readonly failure: RequestFailure };

const PAGE_SIZE = 500;
/** A page whose answer is too large is requested again with so many times fewer objects. */
const PAGE_DIVISOR = 8;
/** An untrusted server may send at most so many times the requested number of objects. */
const MAX_PAGE_EXCESS = 10;
/** A page of large objects from a busy server takes longer than an ordinary request. */
const PAGE_TIMEOUT_MS = 30_000;

/**
 * Reads a complete list page by page, with one page in memory. All pages show the same moment.
 * After a failure, the items seen existed; the absence of an item proves nothing.
 */
export async function readPages(options: {
  readonly connection: Pick<Connection, 'request'>;
  readonly path: string;
  /** Selectors, and the version when it must be an exact one. */
  readonly query: Readonly<Record<string, QueryValue>>;
  readonly signal: AbortSignal;
  readonly onItem: (object: RawObject) => void;
  /** Objects requested per page. Set it for a server that is not trusted to send no more. */
  readonly pageSize?: number;
}): Promise<ListOutcome> {
  let resourceVersion: string | undefined;
  let token: string | undefined;
  let limit = options.pageSize ?? PAGE_SIZE;
  const slice = new TimeSlice(systemClock);
  for (;;) {
    // The version is part of the token, and the server refuses both together.
    const position =
      token === undefined
        ? {}
        : { continue: token, resourceVersion: undefined, resourceVersionMatch: undefined };
    const query = { ...options.query, ...position, limit };
    const outcome = await options.connection.request(options.path, {
      query,
      signal: options.signal,
      timeoutMs: PAGE_TIMEOUT_MS,
    });
    if (outcome.kind === 'status' && outcome.code === 410) return { kind: 'expired' };
    if (outcome.kind === 'status' && outcome.code === 404) return { kind: 'absent' };
    if (outcome.kind === 'network' && outcome.tooLarge === true && limit > 1) {
      limit = Math.max(1, Math.floor(limit / PAGE_DIVISOR));
      continue;
    }
    if (outcome.kind !== 'ok') return { kind: 'failed', failure: outcome };
    const page = parsePage(outcome.body);
    if (page === undefined) return NOT_A_LIST;
    if (options.pageSize !== undefined && page.items.length > options.pageSize * MAX_PAGE_EXCESS) {
      return NOT_A_PAGE;
    }
    for (const item of page.items) {
      if (isRecord(item)) options.onItem({ ...page.typeMeta, ...item });
      if (!slice.isOver) continue;
      await slice.next();
      if (options.signal.aborted) return ABORTED;
    }
    resourceVersion ??= page.resourceVersion;
    token = page.next;
    if (token === undefined) return { kind: 'complete', resourceVersion };
  }
}

const ABORTED: ListOutcome = { kind: 'failed', failure: { kind: 'network', message: 'aborted' } };

const NOT_A_PAGE: ListOutcome = {
  kind: 'failed',
  failure: { kind: 'network', message: 'the answer has many more objects than requested' },
};

const NOT_A_LIST: ListOutcome = {
  kind: 'failed',
  failure: { kind: 'network', message: 'the answer is not a Kubernetes list' },
};

interface ListPage {
  /** The list's `apiVersion` and `kind`: its items omit them, which watch events carry. */
  readonly typeMeta: { readonly apiVersion?: unknown; readonly kind?: string };
  readonly items: readonly unknown[];
  readonly resourceVersion: string;
  readonly next: string | undefined;
}

function parsePage(body: unknown): ListPage | undefined {
  const items = isRecord(body) ? body['items'] : undefined;
  const { resourceVersion, continue: next } = metadataOf(body);
  if (typeof resourceVersion !== 'string') return undefined;
  // An empty list may be sent as null.
  if (!Array.isArray(items) && items !== null) return undefined;
  return {
    typeMeta: typeMetaOf(body),
    items: items ?? [],
    resourceVersion,
    next: typeof next === 'string' && next !== '' ? next : undefined,
  };
}

function typeMetaOf(list: unknown): ListPage['typeMeta'] {
  if (!isRecord(list)) return {};
  const { apiVersion, kind } = list;
  if (typeof kind !== 'string' || !kind.endsWith('List')) return {};
  return { apiVersion, kind: kind.slice(0, -'List'.length) };
}

/** How a watch ended, which decides the next step. */
export type WatchEnd =
  /**
   * Closed, cut, silent for too long or aborted: resume from the last version. `ended`: the server
   * ended it normally, so nothing before is missing.
   */
  | { readonly kind: 'closed'; readonly ended: boolean }
  /** The version is too old: list again. */
  | { readonly kind: 'expired' }
  /** A line could not be parsed, or the server sent an error: list again. */
  | { readonly kind: 'lost'; readonly reason: string }
  | { readonly kind: 'absent' }
  | { readonly kind: 'refused'; readonly failure: RequestFailure };

/** Opens one watch and reads it to its end. Never rejects. */
export async function followWatch(options: {
  readonly connection: Pick<Connection, 'stream'>;
  readonly path: string;
  readonly query: Readonly<Record<string, QueryValue>>;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  /** Silence for this long means a dead connection; bookmarks arrive about every minute. */
  readonly inactivityMs: number;
  readonly onOpen: (signal: AbortSignal) => void;
  readonly onEvent: (event: WatchProgress) => void;
  readonly onGarbage: () => void;
}): Promise<WatchEnd> {
  const { clock } = options;
  const link = linkAbort(options.signal);
  try {
    const stream = await options.connection.stream(options.path, {
      query: { ...options.query, watch: true, allowWatchBookmarks: true },
      signal: link.signal,
    });
    if (stream.kind === 'status' && stream.code === 410) return { kind: 'expired' };
    if (stream.kind === 'status' && stream.code === 404) return { kind: 'absent' };
    if (stream.kind !== 'ok') return { kind: 'refused', failure: stream };
    options.onOpen(link.signal);
    let lastActivity = clock.monotonic();
    void watchdog(() => lastActivity + options.inactivityMs - clock.monotonic());
    const slice = new TimeSlice(clock);
    for await (const line of stream.lines) {
      if (link.signal.aborted) break;
      lastActivity = clock.monotonic();
      const end = take(line);
      if (end !== undefined) return end;
      // Lines already received follow without a pause; let other work run in between.
      if (slice.isOver) await slice.next();
    }
    return { kind: 'closed', ended: !link.signal.aborted };
  } catch {
    // The connection was cut; the error says no more than that.
    return { kind: 'closed', ended: false };
  } finally {
    link.abort();
    link.release();
  }

  /** Ends the stream when nothing arrived for `inactivityMs`; ends with the stream. */
  async function watchdog(remaining: () => number): Promise<void> {
    for (let left = remaining(); left > 0; left = remaining()) {
      if (!(await pause(clock, left, link.signal))) return;
    }
    link.abort();
  }

  function take(line: string): WatchEnd | undefined {
    const event = parseWatchEvent(line);
    switch (event.kind) {
      case 'object':
      case 'bookmark':
        options.onEvent(event);
        return undefined;
      case 'error':
        if (event.code === 410) return { kind: 'expired' };
        return { kind: 'lost', reason: `the server ended the watch: HTTP ${event.code}` };
      default:
        options.onGarbage();
        return { kind: 'lost', reason: 'a line of the watch is not an event' };
    }
  }
}

/** A change of one object. ADDED and MODIFIED are the same: the view knows what it has. */
export interface ObjectEvent {
  readonly kind: 'object';
  readonly deleted: boolean;
  readonly object: RawObject;
  readonly identity: ObjectIdentity;
}

/** One line of a watch stream. */
export type WatchEvent =
  | ObjectEvent
  | { readonly kind: 'bookmark'; readonly resourceVersion: string }
  /** The server's error; the stream ends with it. */
  | { readonly kind: 'error'; readonly code: number }
  /** A line that is no event, so a change may be lost. */
  | { readonly kind: 'garbage' };

/** An event with a new version, from which the watch can resume. */
export type WatchProgress = Extract<WatchEvent, { kind: 'object' | 'bookmark' }>;

const GARBAGE: WatchEvent = { kind: 'garbage' };

function parseWatchEvent(line: string): WatchEvent {
  const event = parseJson(line);
  if (!isRecord(event)) return GARBAGE;
  const { type, object } = event;
  if (!isRecord(object)) return GARBAGE;
  switch (type) {
    case 'ADDED':
    case 'MODIFIED':
    case 'DELETED': {
      const identity = identify(object);
      if (identity === undefined) return GARBAGE;
      return { kind: 'object', deleted: type === 'DELETED', object, identity };
    }
    case 'BOOKMARK': {
      const { resourceVersion } = metadataOf(object);
      if (typeof resourceVersion !== 'string' || resourceVersion === '') return GARBAGE;
      return { kind: 'bookmark', resourceVersion };
    }
    case 'ERROR': {
      const { code } = object;
      return { kind: 'error', code: typeof code === 'number' ? code : 0 };
    }
    default:
      return GARBAGE;
  }
}
