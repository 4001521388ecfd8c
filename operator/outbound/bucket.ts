import type { Secret } from '../model/secret.ts';
import { encodeKey, signatureHeaders } from './aws-signature.ts';
import { type HttpClient, isSuccess } from './http-client.ts';

/** Time for one object of about 20 MB on a slow line. */
const PUT_MS = 600_000;

/** A bucket of an S3-compatible store, addressed by path. */
export class Bucket {
  readonly #options;

  constructor(options: {
    /** A client of {@link endpoint}. */
    readonly client: HttpClient;
    /** Base URL of the store, without the bucket. */
    readonly endpoint: string;
    readonly region: string;
    readonly name: string;
    readonly accessKeyId: Secret;
    readonly secretAccessKey: Secret;
    /** Milliseconds since the epoch. */
    readonly now: () => number;
  }) {
    this.#options = options;
  }

  /**
   * Writes an object in one request. `sha256` is that of the bytes, hex. A failure has
   * the code of the store, such as `AccessDenied`.
   */
  async put(
    key: string,
    bytes: Buffer,
    sha256: string,
    signal: AbortSignal,
  ): Promise<{ readonly kind: 'written' } | { readonly kind: 'failed'; readonly reason: string }> {
    const { client, endpoint, name, now } = this.#options;
    const { host, pathname } = new URL(endpoint);
    const path = `/${encodeKey(`${name}/${key}`)}`;
    const full = pathname.replace(/\/$/, '') + path;
    const request = { method: 'PUT' as const, host, path: full, sha256 };
    const headers = signatureHeaders(request, this.#options, now());
    const sent = { method: 'PUT' as const, path, headers, body: bytes, timeoutMs: PUT_MS, signal };
    const outcome = await client.request(sent);
    if (outcome.kind === 'failed') return outcome;
    const { status, body } = outcome;
    if (isSuccess(status)) return { kind: 'written' };
    const code = /<Code>(\w{1,64})<\/Code>/.exec(body)?.[1] ?? 'no code';
    return { kind: 'failed', reason: `PUT ${key}: bucket "${name}": HTTP ${status}: ${code}` };
  }
}
