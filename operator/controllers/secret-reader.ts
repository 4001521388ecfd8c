import type { SecretRead, SecretReads } from '../settings/spec-fields.ts';
import { describeFailure } from '../kubernetes/outcome.ts';
import { resourcePath } from '../kubernetes/resource.ts';
import { isRecord } from '../model/is-record.ts';
import { Secret } from '../model/secret.ts';
import { OwnSecrets, type OwnSecretsOptions } from './own-secrets.ts';

/** Interval between reads of Secrets. A watch would need the right to list all of them. */
export const SECRET_INTERVAL_MS = 15_000;
export const SECRET_RETRY_MS = 5_000;

/** Reads Secrets of the operator's namespace, except those that configure the operator itself. */
export class SecretReader {
  readonly #options: OwnSecretsOptions;
  readonly #ownSecrets: OwnSecrets;

  constructor(options: OwnSecretsOptions) {
    this.#options = options;
    this.#ownSecrets = new OwnSecrets(options);
  }

  /** Reads all of the named Secrets at once. */
  async read(names: readonly string[], signal: AbortSignal): Promise<SecretReads> {
    const reads = names.map(
      async (name): Promise<[string, SecretRead]> => [name, await this.#readOne(name, signal)],
    );
    return new Map(await Promise.all(reads));
  }

  async #readOne(name: string, signal: AbortSignal): Promise<SecretRead> {
    const { connection, namespace } = this.#options;
    const own = await this.#ownSecrets.read(signal);
    if (own.kind === 'failed') return own;
    if (own.names.has(name)) return { kind: 'refused' };
    const path = resourcePath({ group: '', version: 'v1', plural: 'secrets', namespace }, name);
    const outcome = await connection.request(path, { signal });
    if (outcome.kind === 'ok' && isAccountToken(outcome.body)) return { kind: 'refused' };
    if (outcome.kind === 'ok') return { kind: 'found', values: valuesOf(outcome.body) };
    if (outcome.kind === 'status' && outcome.code === 404) return { kind: 'missing' };
    return { kind: 'failed', reason: describeFailure(outcome) };
  }
}

/** Returns which Secret could not be read, and why; undefined if all were read. */
export function unreadSecret(reads: SecretReads): string | undefined {
  for (const [name, read] of reads) {
    if (read.kind === 'failed') return `Secret "${name}" cannot be read: ${read.reason}`;
  }
  return undefined;
}

/**
 * Returns whether a Secret is a service account token. Such a token is a credential of the API
 * server only.
 */
function isAccountToken(body: unknown): boolean {
  return isRecord(body) && body['type'] === 'kubernetes.io/service-account-token';
}

function valuesOf(body: unknown): ReadonlyMap<string, Secret> {
  const data = isRecord(body) ? body['data'] : undefined;
  const values = new Map<string, Secret>();
  for (const [key, value] of Object.entries(isRecord(data) ? data : {})) {
    if (typeof value === 'string') values.set(key, new Secret(decode(value)));
  }
  return values;
}

/** Decodes a value without its last line break, which files have and credentials do not. */
function decode(base64: string): string {
  return Buffer.from(base64, 'base64')
    .toString('utf8')
    .replace(/\r?\n$/, '');
}
