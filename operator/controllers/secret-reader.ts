import type { SecretRead } from '../config/spec-fields.ts';
import { Secret } from '../model/secret.ts';
import type { Connection } from '../kubernetes/connection.ts';
import { describeFailure } from '../kubernetes/outcome.ts';
import { isRecord } from '../model/is-record.ts';
import { resourcePath } from '../kubernetes/resource.ts';

/** Reads Secrets of the operator's own namespace, and no other. */
export interface SecretReader {
  read(name: string, signal: AbortSignal): Promise<SecretRead>;
}

export interface SecretReaderOptions {
  readonly connection: Connection;
  readonly namespace: string;
}

export function createSecretReader(options: SecretReaderOptions): SecretReader {
  const { connection, namespace } = options;
  return {
    async read(name, signal) {
      const resource = { group: '', version: 'v1', plural: 'secrets', namespace };
      const outcome = await connection.request(resourcePath(resource, name), { signal });
      if (outcome.kind === 'ok') return { kind: 'found', values: valuesOf(outcome.body) };
      if (outcome.kind === 'status' && outcome.code === 404) return { kind: 'missing' };
      return { kind: 'failed', reason: describeFailure(outcome) };
    },
  };
}

function valuesOf(body: unknown): ReadonlyMap<string, Secret> {
  const data = isRecord(body) ? body['data'] : undefined;
  const values = new Map<string, Secret>();
  for (const [key, value] of Object.entries(isRecord(data) ? data : {})) {
    if (typeof value === 'string') values.set(key, new Secret(decode(value)));
  }
  return values;
}

/** Files that Secrets are made from usually end with a line break that is no part of the credential. */
function decode(base64: string): string {
  return Buffer.from(base64, 'base64')
    .toString('utf8')
    .replace(/\r?\n$/, '');
}
