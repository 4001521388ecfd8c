import { isRecord } from '../model/is-record.ts';
import type { Connection, RequestOutcome } from './connection.ts';
import type { RequestFailure } from './outcome.ts';

type VersionOutcome =
  | { readonly kind: 'served'; readonly version: string }
  | { readonly kind: 'failed'; readonly failure: RequestFailure };

/**
 * A connection that sends requests for an API group to a version that the API server serves.
 * Requests are written for the first of `versions`. The first request finds the served version; a
 * 404, as after an upgrade, starts a new search. Objects and their resourceVersions are the same in
 * every version, so watches continue.
 */
export function preferServedVersion(options: {
  readonly connection: Pick<Connection, 'request' | 'stream'>;
  readonly group: string;
  /** Accepted versions, the preferred one first. Their objects must fit one projection. */
  readonly versions: readonly string[];
}): Pick<Connection, 'request' | 'stream'> {
  const { connection, group, versions } = options;
  const root = `/apis/${group}`;
  const preferred = `${root}/${versions[0] ?? ''}/`;
  let served: string | undefined;

  const discover = async (signal: AbortSignal | undefined): Promise<VersionOutcome> => {
    const outcome = await connection.request(root, { signal });
    if (outcome.kind !== 'ok') return { kind: 'failed', failure: outcome };
    const known = versionsOf(outcome);
    const version = versions.find((each) => known.has(each));
    if (version !== undefined) return { kind: 'served', version };
    const message = `the API server serves none of ${versions.join(', ')} of ${group}`;
    return { kind: 'failed', failure: { kind: 'status', code: 404, reason: 'NotFound', message } };
  };

  /** Sends the request in the served version; after a 404 it looks for the served version again. */
  const query = async <T extends { readonly kind: string }>(
    path: string,
    signal: AbortSignal | undefined,
    send: (path: string) => Promise<T | RequestFailure>,
  ): Promise<T | RequestFailure> => {
    if (!path.startsWith(preferred)) return send(path);
    const suffix = path.slice(preferred.length);
    const before = served;
    if (before !== undefined) {
      const outcome = await send(`${root}/${before}/${suffix}`);
      if (!isNotFound(outcome)) return outcome;
      served = undefined;
    }
    const discovered = await discover(signal);
    if (discovered.kind === 'failed') return discovered.failure;
    served = discovered.version;
    return send(`${root}/${served}/${suffix}`);
  };

  return {
    request: (path, request) =>
      query(path, request?.signal, (inVersion) => connection.request(inVersion, request)),
    stream: (path, stream) =>
      query(path, stream.signal, (inVersion) => connection.stream(inVersion, stream)),
  };
}

function isNotFound(outcome: { readonly kind: string }): boolean {
  return outcome.kind === 'status' && 'code' in outcome && outcome.code === 404;
}

function versionsOf(outcome: RequestOutcome & { readonly kind: 'ok' }): ReadonlySet<unknown> {
  const { body } = outcome;
  const versions = isRecord(body) ? body['versions'] : [];
  if (!Array.isArray(versions)) return new Set();
  return new Set(versions.filter(isRecord).map((version) => version['version']));
}
