import type { Connection } from '../../kubernetes/connection.ts';
import type { Projected, Projection } from '../../kubernetes/source.ts';
import { decodeJson } from '../../metering/timelines/journal-text.ts';
import type { Api } from '../../metering/timelines/shared-values.ts';
import { type ForeignAnswer, type ForeignBytes, isForeignKind } from './foreign-answer.ts';

/** Parses what a foreign API server has sent, outside the main thread. Never rejects. */
export type ReadForeign = (given: ForeignBytes, signal: AbortSignal) => Promise<ForeignAnswer>;

type ForeignConnection = Pick<Connection, 'request' | 'bytes' | 'stream'>;

/** Most bytes of one line of a watch. */
const MOST_LINE_BYTES = 2 * 1024 * 1024;
const NEWLINE = 0x0a;

/**
 * The same connection, with lists and watches parsed, checked and projected in another thread.
 * {@link readView} makes views of its objects. `refuse` receives the reason why the server is not
 * trusted.
 */
export function readSeparate(
  connection: ForeignConnection,
  read: ReadForeign,
  refuse: (reason: string) => void,
): ForeignConnection {
  const checked = async (given: ForeignBytes, signal: AbortSignal): Promise<ForeignAnswer> => {
    const answer = await read(given, signal);
    if (answer.kind === 'refused') refuse(answer.reason);
    return answer;
  };
  return {
    bytes: (path, options) => connection.bytes(path, options),
    request: (path, options) => {
      const plural = lastOf(path);
      if (!isForeignKind(plural)) return connection.request(path, options);
      return connection.request(path, {
        ...options,
        read: async (bytes, signal) => {
          const answer = await checked({ what: 'page', plural, bytes }, signal);
          if (answer.kind === 'page') return { kind: 'ok', body: answer.body };
          const tooLarge = answer.kind === 'failed' ? answer.tooLarge : undefined;
          return { kind: 'network', message: reasonOf(answer), tooLarge };
        },
      });
    },
    stream: async (path, options) => {
      const plural = lastOf(path);
      // A resumed watch must be read soon after it opens, so the thread must already run.
      const ready = await checked({ what: 'events', plural, bytes: nothing() }, options.signal);
      if (ready.kind !== 'events') return { kind: 'network', message: reasonOf(ready) };
      const outcome = await connection.bytes(path, options);
      if (outcome.kind !== 'ok') return outcome;
      const lines = async function* (): AsyncGenerator<string> {
        for await (const bytes of completeLines(outcome.chunks)) {
          const answer = await checked({ what: 'events', plural, bytes }, options.signal);
          if (answer.kind !== 'events') throw new Error(reasonOf(answer));
          yield* answer.lines;
        }
      };
      return { kind: 'ok', lines: lines() };
    },
  };
}

/** Returns an object's view from {@link readSeparate}. Objects of one `api` share values. */
export function readView<T extends Projected>(api: Api): Projection<T> {
  return ({ view }) => (typeof view === 'string' ? (decodeJson(view, api) as T) : undefined);
}

const nothing = (): Uint8Array<ArrayBuffer> => new Uint8Array(0);

function lastOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

function reasonOf(answer: ForeignAnswer): string {
  return 'reason' in answer ? answer.reason : 'an answer of another kind';
}

/** Yields complete lines: cuts chunks after their last line end. Drops an incomplete end. */
async function* completeLines(
  chunks: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  let pending: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of chunks) {
    const end = chunk.lastIndexOf(NEWLINE) + 1;
    const head = end === 0 ? chunk : chunk.subarray(0, end);
    pending.push(head);
    length += head.length;
    if (length > MOST_LINE_BYTES + chunk.length) throw new Error('stream: a line is too long');
    if (end === 0) continue;
    yield joined(pending, length);
    const tail = chunk.subarray(end);
    pending = [tail];
    length = tail.length;
  }
}

/** Copies the parts to separate memory, which can be transferred to another thread. */
function joined(parts: readonly Uint8Array[], length: number): Uint8Array<ArrayBuffer> {
  const complete = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    complete.set(part, at);
    at += part.length;
  }
  return complete;
}
