import type { Connection, QueryValue } from './connection.ts';
import { versionOf } from './revision-clock.ts';

const TIMEOUT_MS = 5_000;

/**
 * The newest version that an API server has given out, as a list of a collection tells it: of the etcd that has
 * that collection. Undefined where it does not say. `query` has the selectors without which it may not be listed.
 */
export async function newestVersion(
  connection: Pick<Connection, 'request'>,
  path: string,
  signal: AbortSignal,
  query: Readonly<Record<string, QueryValue>> = {},
): Promise<bigint | undefined> {
  const options = { query: { ...query, limit: 1 }, signal, timeoutMs: TIMEOUT_MS };
  const outcome = await connection.request(path, options);
  return outcome.kind === 'ok' ? versionOf(outcome.body) : undefined;
}
