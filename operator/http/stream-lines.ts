import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Response } from 'express';

/** Lines are sent together in pieces of about this many characters. */
const CHUNK_CHARACTERS = 64 * 1024;

/**
 * Sends lines as they come, no faster than the client takes them. When the source fails midway the
 * connection is cut, so that the client sees a broken answer and not a short one; when it fails at
 * once, nothing has been sent and the error can still be told.
 */
export async function streamLines(response: Response, lines: AsyncIterable<string>): Promise<void> {
  const chunks = inChunks(lines);
  const first = await chunks.next();
  if (first.done === true) {
    response.end();
    return;
  }
  await pipeline(Readable.from(resume(first.value, chunks), { objectMode: false }), response);
}

async function* resume<T>(first: T, rest: AsyncIterable<T>): AsyncGenerator<T> {
  yield first;
  yield* rest;
}

/** Aborted when the client goes away, so that nobody reads the ledger for it any longer. */
export function goneSignal(response: Response): AbortSignal {
  const controller = new AbortController();
  if (response.closed) controller.abort(new Error('client went away'));
  response.once('close', () => controller.abort(new Error('client went away')));
  return controller.signal;
}

async function* inChunks(lines: AsyncIterable<string>): AsyncGenerator<Buffer> {
  let chunk = '';
  for await (const line of lines) {
    chunk += line;
    if (chunk.length < CHUNK_CHARACTERS) continue;
    yield Buffer.from(chunk);
    chunk = '';
  }
  if (chunk !== '') yield Buffer.from(chunk);
}
