import type { ServerResponse } from 'node:http';
import type { RawObject } from '../../../operator/kubernetes/source.ts';
import type { Random } from '../../faults/random.ts';
import { expandMarks } from './values.ts';

/** A request to the API of a hostile tenant cluster. */
export interface Requested {
  /** The path and the query as they came. */
  readonly url: string;
  readonly plural: string;
  readonly isWatch: boolean;
  readonly query: URLSearchParams;
  /** What came in the header of that name. */
  readonly authorization: string;
  /** The name of the tenant cluster, and since when it is there. */
  readonly cluster: string;
  readonly bornAt: number;
}

/** How one hostile API server misbehaves. */
export interface Lie {
  /** Whether it is this one that answers the request; all others are answered honestly. */
  takes(requested: Requested): boolean;
  answer(requested: Requested, response: ServerResponse): void;
}

/** Generates lies of one sort. */
export interface Liar {
  readonly name: string;
  make(random: Random): Lie;
}

const JSON_TYPE = { 'content-type': 'application/json' };

/** Sends a body of JSON with its marks expanded. */
export function sendJson(response: ServerResponse, code: number, body: unknown): void {
  sendText(response, code, expandMarks(JSON.stringify(body)));
}

export function sendText(
  response: ServerResponse,
  code: number,
  text: string,
  headers: Readonly<Record<string, string>> = JSON_TYPE,
): void {
  if (response.headersSent) return;
  response.writeHead(code, headers).end(text);
}

export function listOf(items: readonly RawObject[], metadata: RawObject = {}): RawObject {
  return {
    kind: 'List',
    apiVersion: 'v1',
    metadata: { resourceVersion: '1000', ...metadata },
    items,
  };
}

/** Begins a watch that has been answered and tells nothing yet. */
export function beginWatch(response: ServerResponse): void {
  response.writeHead(200, JSON_TYPE);
  response.flushHeaders();
}

/** One line of a watch. */
export function watchLine(type: string, object: unknown): string {
  return `${expandMarks(JSON.stringify({ type, object }))}\n`;
}

/** Writes what is made again and again, as fast as it is read or with a rest between, until the client has gone. */
export async function writeOn(
  response: ServerResponse,
  make: () => string | Buffer,
  restMs = 0,
): Promise<void> {
  while (!response.destroyed && !response.closed) {
    const isTaken = response.write(make());
    if (restMs > 0) await new Promise((resolve) => setTimeout(resolve, restMs));
    else if (isTaken) await new Promise(setImmediate);
    else await drained(response);
  }
}

/** Until more can be written, or the client has gone. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      response.off('drain', done);
      response.off('close', done);
      resolve();
    };
    response.once('drain', done);
    response.once('close', done);
  });
}
