import { isRecord } from '../model/is-record.ts';
import type { Clock } from '../telemetry/clock.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import { TimeSlice } from '../telemetry/time-slice.ts';
import { linkAbort, pause } from './abort.ts';
import { type Connection, parseJson, type QueryValue } from './connection.ts';
import type { RequestFailure } from './outcome.ts';
import { identify, metadataOf, type ObjectIdentity } from './resource.ts';
import type { RawObject } from './source.ts';

/** `expired`: the version that the pages belong to is gone; begin again. `absent`: the resource is not served. */
export type ListOutcome =
  | { readonly kind: 'complete'; readonly resourceVersion: string }
  | { readonly kind: 'expired' }
  | { readonly kind: 'absent' }
  | { readonly kind: 'failed'; readonly failure: RequestFailure };

const PAGE_SIZE = 500;
/** A page whose answer is too large is asked for again with so much fewer objects. */
const SMALLER = 8;
/** What a server that is not trusted sends beyond this multiple of what it was asked for is no list. */
const MOST_OF_REQUESTED = 10;
/** A page of large objects from a busy server takes longer than an ordinary request. */
const PAGE_TIMEOUT_MS = 30_000;

/**
 * Reads a whole list page by page, holding one page at a time. All pages show the same moment.
 * Items seen before a failure were there, but those not seen prove nothing.
 */
export async function readPages(options: {
  readonly connection: Pick<Connection, 'request'>;
  readonly path: string;
  /** Selectors, and the version when it must be an exact one. */
  readonly query: Readonly<Record<string, QueryValue>>;
  readonly signal: AbortSignal;
  readonly onItem: (object: RawObject) => void;
  /** Objects asked for at a time, of a server that is not trusted to send no more. */
  readonly pageSize?: number | undefined;
}): Promise<ListOutcome> {
  let resourceVersion: string | undefined;
  let token: string | undefined;
  let limit = options.pageSize ?? PAGE_SIZE;
  const turn = new TimeSlice(systemClock);
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
      limit = Math.max(1, Math.floor(limit / SMALLER));
      continue;
    }
    if (outcome.kind !== 'ok') return { kind: 'failed', failure: outcome };
    const page = parsePage(outcome.body);
    if (page === undefined) return NOT_A_LIST;
    if (
      options.pageSize !== undefined &&
      page.items.length > options.pageSize * MOST_OF_REQUESTED
    ) {
      return NOT_A_PAGE;
    }
    for (const item of page.items) {
      if (isRecord(item)) options.onItem({ ...page.typeMeta, ...item });
      if (!turn.isOver) continue;
      await turn.next();
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
  failure: { kind: 'network', message: 'the answer has many more objects than were asked for' },
};

const NOT_A_LIST: ListOutcome = {
  kind: 'failed',
  failure: { kind: 'network', message: 'the answer is not a Kubernetes list' },
};

interface Page {
  /** Items of a list leave out what the list says for all of them; events carry it. */
  readonly typeMeta: { readonly apiVersion?: unknown; readonly kind?: string };
  readonly items: readonly unknown[];
  readonly resourceVersion: string;
  readonly next: string | undefined;
}

function parsePage(body: unknown): Page | undefined {
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

function typeMetaOf(list: unknown): Page['typeMeta'] {
  if (!isRecord(list)) return {};
  const { apiVersion, kind } = list;
  if (typeof kind !== 'string' || !kind.endsWith('List')) return {};
  return { apiVersion, kind: kind.slice(0, -'List'.length) };
}

/** Why a watch is over, and so what comes next. */
export type WatchEnd =
  /**
   * Closed, cut, quiet for too long or aborted: resume from the last version. `ended` when the server
   * ended it in order, so that nothing of before is missing.
   */
  | { readonly kind: 'closed'; readonly ended: boolean }
  /** The version is too old: list again. */
  | { readonly kind: 'expired' }
  /** Something in the stream could not be understood: list again. */
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
  /** Bookmarks come about every minute; silence beyond this means that the connection is dead. */
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
    const turn = new TimeSlice(clock);
    for await (const line of stream.lines) {
      if (link.signal.aborted) break;
      lastActivity = clock.monotonic();
      const end = take(line);
      if (end !== undefined) return end;
      // Lines that have arrived already come one after the other, with time for nobody else in between.
      if (turn.isOver) await turn.next();
    }
    return { kind: 'closed', ended: !link.signal.aborted };
  } catch {
    // A cut connection; nothing in it says more than that.
    return { kind: 'closed', ended: false };
  } finally {
    link.abort();
    link.release();
  }

  /** Ends the stream when nothing has arrived for too long. Ends itself with the stream. */
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

/** ADDED and MODIFIED are one: which of them it is to a view depends on what it holds. */
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
  /** The server's last word on this stream. */
  | { readonly kind: 'error'; readonly code: number }
  /** Not an event; what it should have been is lost. */
  | { readonly kind: 'garbage' };

/** An event that moves the watch on. */
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
