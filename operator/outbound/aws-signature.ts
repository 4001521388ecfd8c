import { createHmac, hash } from 'node:crypto';
import type { Secret } from '../model/secret.ts';

/** A request that names its content by hash. */
interface ObjectRequest {
  readonly method: string;
  readonly host: string;
  /** As it is sent, percent-encoded by {@link encodeKey}; without a query. */
  readonly path: string;
  /** Further headers to sign. */
  readonly headers?: Readonly<Record<string, string>>;
  /** SHA-256 of the body, hex. */
  readonly sha256: string;
}

interface BucketKey {
  readonly accessKeyId: Secret;
  readonly secretAccessKey: Secret;
  readonly region: string;
}

const ALGORITHM = 'AWS4-HMAC-SHA256';

/**
 * The headers that sign a request to S3 (Signature Version 4,
 * https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html). `at` is
 * milliseconds since the epoch.
 */
export function signatureHeaders(
  { method, host, path, headers = {}, sha256 }: ObjectRequest,
  { accessKeyId, secretAccessKey, region }: BucketKey,
  at: number,
): Readonly<Record<string, string>> {
  const time = new Date(at).toISOString().replaceAll(/[-:]|\.\d{3}/g, '');
  const own = { 'x-amz-content-sha256': sha256, 'x-amz-date': time };
  const signed = Object.entries({ ...headers, ...own, host })
    .map(([name, value]) => [name.toLowerCase(), value.trim()] as const)
    .toSorted(([a], [b]) => (a < b ? -1 : 1));
  const names = signed.map(([name]) => name).join(';');
  const lines = signed.map(([name, value]) => `${name}:${value}\n`).join('');
  const canonical = [method, path, '', lines, names, sha256].join('\n');
  const scope = [time.slice(0, 8), region, 's3', 'aws4_request'];
  const text = [ALGORITHM, time, scope.join('/'), hash('sha256', canonical, 'hex')].join('\n');
  const key = scope.reduce<string | Buffer>(
    (previous, part) => createHmac('sha256', previous).update(part).digest(),
    `AWS4${secretAccessKey.reveal()}`,
  );
  const signature = createHmac('sha256', key).update(text).digest('hex');
  const credential = `${accessKeyId.reveal()}/${scope.join('/')}`;
  return {
    ...headers,
    ...own,
    authorization: `${ALGORITHM} Credential=${credential}, SignedHeaders=${names}, Signature=${signature}`,
  };
}

/** Percent-encodes an object's key, all but its slashes, as signatures require. */
export function encodeKey(key: string): string {
  return encodeURIComponent(key)
    .replaceAll('%2F', '/')
    .replaceAll(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`);
}
