import type { Connection } from '../../kubernetes/connection.ts';
import type { Projected, Projection } from '../../kubernetes/source.ts';
import { decodeJson } from '../../metering/timelines/journal-text.ts';
import type { Api } from '../../metering/timelines/shared-values.ts';
import { type ForeignAnswer, type ForeignBytes, isForeignKind } from './foreign-answer.ts';

/** Reads what a foreign API server has sent, outside of the main thread. Never rejects. */
export type ReadForeign = (given: ForeignBytes, signal: AbortSignal) => Promise<ForeignAnswer>;

type ForeignConnection = Pick<Connection, 'request' | 'bytes' | 'stream'>;

/** Of one line of a watch. */
const MOST_LINE_BYTES = 2 * 1024 * 1024;
const NEWLINE = 0x0a;

/**
 * The same connection, of which lists and watches are parsed, checked and projected elsewhere: what it
 * gives holds objects that {@link readView} makes views of. `refuse` learns why nothing more may be
 * believed.
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
      // What a resumed watch has missed must be read soon after it is opened: whoever reads is up by then.
      const ready = await checked({ what: 'events', plural, bytes: nothing() }, options.signal);
      if (ready.kind !== 'events') return { kind: 'network', message: reasonOf(ready) };
      const outcome = await connection.bytes(path, options);
      if (outcome.kind !== 'ok') return outcome;
      const lines = async function* (): AsyncGenerator<string> {
        for await (const bytes of wholeLines(outcome.chunks)) {
          const answer = await checked({ what: 'events', plural, bytes }, options.signal);
          if (answer.kind !== 'events') throw new Error(reasonOf(answer));
          yield* answer.lines;
        }
      };
      return { kind: 'ok', lines: lines() };
    },
  };
}

/** The view of an object that was read apart; `api` is whose objects share values. */
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

/** Cuts after the last end of a line of each chunk; what follows the last of all is dropped. */
async function* wholeLines(
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

/** In memory of its own, which can be given to another thread. */
function joined(parts: readonly Uint8Array[], length: number): Uint8Array<ArrayBuffer> {
  const complete = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    complete.set(part, at);
    at += part.length;
  }
  return complete;
}
