import type { Clock } from '../telemetry/clock.ts';
import { linkAbort, pause } from './abort.ts';
import type { Connection, QueryValue } from './connection.ts';
import type { RequestFailure } from './outcome.ts';
import { parseWatchEvent, type WatchEvent } from './watch-event.ts';

/** Why a watch is over, and so what comes next. */
export type WatchEnd =
  /** Closed, cut, quiet for too long or aborted: resume from the last version. */
  | { readonly kind: 'closed' }
  /** The version is too old: list again. */
  | { readonly kind: 'expired' }
  /** Something in the stream could not be understood: list again. */
  | { readonly kind: 'lost'; readonly reason: string }
  | { readonly kind: 'absent' }
  | { readonly kind: 'refused'; readonly failure: RequestFailure };

export interface WatchStreamOptions {
  readonly connection: Pick<Connection, 'stream'>;
  readonly path: string;
  readonly query: Readonly<Record<string, QueryValue>>;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  /** Bookmarks come about every minute; silence beyond this means that the connection is dead. */
  readonly inactivityMs: number;
  readonly onOpen: (signal: AbortSignal) => void;
  readonly onEvent: (event: Extract<WatchEvent, { kind: 'object' | 'bookmark' }>) => void;
  readonly onGarbage: () => void;
}

/** Opens one watch and reads it to its end. Never rejects. */
export async function followWatch(options: WatchStreamOptions): Promise<WatchEnd> {
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
    for await (const line of stream.lines) {
      if (link.signal.aborted) break;
      lastActivity = clock.monotonic();
      const end = take(line);
      if (end !== undefined) return end;
    }
    return { kind: 'closed' };
  } catch {
    // A cut connection; nothing in it says more than that.
    return { kind: 'closed' };
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
