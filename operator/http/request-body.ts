import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Request, RequestHandler } from 'express';
import { NumberText } from '../model/complete-event.ts';
import { isRecord } from '../model/is-record.ts';
import { jsonText } from '../model/json-shape.ts';
import { quote } from '../model/validate-event.ts';
import type { ConcurrencyLimit } from './limits.ts';
import { badRequest, Problem } from './problem.ts';

/** No body of the API is nested deeper. */
const MAX_DEPTH = 8;

/** Bytes read of a body on a path that takes none; more is 413. */
const MOST_REFUSED_BYTES = 1024;

/** A quantity with more digits than a double may keep, or so small that a double may be zero. */
const LONG_QUANTITY = /"quantity"\s*:\s*-?(?:[\d.]{16}|[\d.]+[eE])/;

/**
 * Middleware that reads an uncompressed JSON body into `request.body`, as bytes. 415 for anything
 * else, 413 when it is too large, 503 when the bodies in progress fill the shared memory.
 */
export function readBody(options: {
  readonly maxBytes: number;
  /** The memory for all bodies in progress, in bytes. */
  readonly memory: ConcurrencyLimit;
  /**
   * The memory that a body in progress takes; `announced` by default.
   *
   * - `announced`: its Content-Length, so that every accepted body can finish.
   * - `received`: its bytes so far, for callers without a token, who may announce anything.
   */
  readonly counted?: 'announced' | 'received';
  /** Accepts a request without a body; its `request.body` is undefined. */
  readonly optional?: boolean;
  /** Accepts bodies with these headers beside JSON. */
  readonly others?: (headers: IncomingHttpHeaders) => boolean;
}): RequestHandler {
  const { maxBytes, memory, counted = 'announced', optional = false, others } = options;
  return async (request, response, next) => {
    if (optional && hasNoBody(request)) {
      next();
      return;
    }
    const isKnown = isJson(request) || others?.(request.headers) === true;
    if (!isKnown || isCompressed(request)) throw unsupported();
    const announced = Number(request.headers['content-length'] ?? maxBytes);
    if (announced > maxBytes) throw tooLarge(maxBytes);
    const grow = memory.grow(response);
    if (counted === 'announced') grow(announced);
    request.body = await collect(request, maxBytes, counted === 'received' ? grow : undefined);
    next();
  };
}

/** The value of a body read by {@link readBody}; quantities keep their digits (`NumberText`). */
export function parseBody(body: unknown): unknown {
  const read = jsonText(Buffer.isBuffer(body) ? body : Buffer.alloc(0), MAX_DEPTH);
  if (read.kind === 'refused') throw new Problem(read.status, read.problem);
  return parseJson(read.text);
}

/**
 * The fields of a JSON object read by {@link readBody}; `example` is one, for the error. Throws 400
 * for a field that is not in `known`. Otherwise a request with a misspelt `dry_run` would be
 * carried out (docs/reference/openapi.yaml).
 */
export function readFields<K extends string>(
  body: unknown,
  known: readonly K[],
  example: string,
): Readonly<Partial<Record<K, unknown>>> {
  const fields = parseBody(body);
  if (!isRecord(fields)) throw badRequest(`not an object: body: ${quote(fields)}: send ${example}`);
  refuseOthers(fields, known);
  return fields as Readonly<Partial<Record<K, unknown>>>;
}

/** Throws 400 for a field that is not in `known`. */
export function refuseOthers(fields: object, known: readonly string[]): void {
  const unknown = Object.keys(fields).find((field) => !known.includes(field));
  if (unknown === undefined) return;
  throw badRequest(`unknown field: ${quote(unknown)}: use ${known.join(', ')}`);
}

/** Middleware of a change without fields: 400 for any body, whose fields would be ignored. */
export const refuseBody: RequestHandler = async (request, _response, next) => {
  const { length } = await collect(request, MOST_REFUSED_BYTES);
  if (length > 0)
    throw badRequest('not empty: body: this path takes none: send the request without it');
  next();
};

/**
 * Reads a body of at most `maxBytes`. It refuses a longer one at once; Express's parser would read
 * it to its end first.
 */
function collect(
  request: Request,
  maxBytes: number,
  count?: (bytes: number) => void,
): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  let refused = false;
  return new Promise((resolve, reject) => {
    const take = (chunk: Buffer): void => {
      size += chunk.length;
      if (size > maxBytes) throw tooLarge(maxBytes);
      count?.(chunk.length);
      chunks.push(chunk);
    };
    // A refused body is still read and dropped, so that the client reads the answer.
    request.on('data', (chunk: Buffer) => {
      if (refused) return;
      try {
        take(chunk);
      } catch (error) {
        refused = true;
        chunks.length = 0;
        reject(error instanceof Error ? error : new Error('not read', { cause: error }));
      }
    });
    request.once('end', () => resolve(Buffer.concat(chunks)));
    request.once('close', () => {
      if (!request.complete) reject(badRequest('aborted: body: send all of it'));
    });
    request.once('error', reject);
  });
}

function unsupported(): Problem {
  const message = 'unsupported media type: Content-Type: send application/json, uncompressed';
  return new Problem(415, message);
}

function tooLarge(maxBytes: number): Problem {
  return new Problem(413, `too large: body: send at most ${maxBytes} bytes at a time`);
}

function hasNoBody({ headers }: Request): boolean {
  return headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) === 0;
}

function isCompressed({ headers }: Request): boolean {
  return (headers['content-encoding'] ?? 'identity') !== 'identity';
}

function isJson({ headers }: Pick<IncomingMessage, 'headers'>): boolean {
  const type = headers['content-type']?.split(';', 1)[0];
  return type?.trim().toLowerCase() === 'application/json';
}

function parseJson(text: string): unknown {
  try {
    return LONG_QUANTITY.test(text) ? JSON.parse(text, keepQuantityText) : JSON.parse(text);
  } catch (error) {
    const reason = error instanceof SyntaxError ? error.message : 'unreadable';
    throw badRequest(`not valid JSON: body: ${reason}`);
  }
}

/** `context.source` is the number's own text (ECMAScript, JSON.parse source text access). */
function keepQuantityText(this: unknown, key: string, value: unknown, ...rest: unknown[]): unknown {
  if (key !== 'quantity' || typeof value !== 'number') return value;
  const source = (rest[0] as { readonly source?: string } | undefined)?.source;
  return source === undefined ? value : new NumberText(source);
}
