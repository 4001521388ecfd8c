import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Response } from 'express';

/** Lines are sent together in chunks of about this many characters. */
const CHUNK_CHARACTERS = 64 * 1024;

/**
 * Sends lines as they come, no faster than the client reads them. When the source fails before the
 * first line, it rejects, and the error can still be answered. A later failure cuts the connection,
 * so that the client sees a broken answer and not a short one.
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

/**
 * Sends an object with `lists` and `rows` as its last fields. Each of their items is JSON text,
 * since they have exact decimals, which JSON.stringify would round. Rows are made as they are sent.
 */
export async function sendRows(
  response: Response,
  head: object,
  rows: Iterable<string>,
  lists: Readonly<Record<string, readonly string[]>> = {},
): Promise<void> {
  const fields = Object.entries(lists).map(([name, items]) => `"${name}":[${items.join(',')}],`);
  response.type('application/json');
  await streamLines(
    response,
    (async function* lines() {
      yield `${JSON.stringify(head).slice(0, -1)},${fields.join('')}"rows":[`;
      let separator = '';
      for (const row of rows) {
        yield separator + row;
        separator = ',';
      }
      yield ']}\n';
    })(),
  );
}

/** Sends JSON texts as lines. They are made as they are sent. */
export async function sendNdjson(response: Response, rows: Iterable<string>): Promise<void> {
  response.type('application/x-ndjson');
  await streamLines(
    response,
    (async function* lines() {
      for (const row of rows) yield `${row}\n`;
    })(),
  );
}

async function* resume<T>(first: T, following: AsyncIterable<T>): AsyncGenerator<T> {
  yield first;
  yield* following;
}

/** A signal that aborts when the client disconnects, so that the ledger is not read in vain. */
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
