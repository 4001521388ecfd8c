import { isNativeError } from 'node:util/types';
import { RefusedAddressError } from './address-guard.ts';

const INVALID_REQUEST = 'UND_ERR_INVALID_ARG';
const UNKNOWN_REASON = 'connection failed';

/** By error code: the text, and whether the request may have been sent. */
const KNOWN: Readonly<Record<string, readonly [text: string, sent: false | 'unknown']>> = {
  ECONNREFUSED: ['connection refused', false],
  ENOTFOUND: ['host not found', false],
  EAI_AGAIN: ['host not found (name server does not answer)', false],
  EHOSTUNREACH: ['host unreachable', false],
  ENETUNREACH: ['network unreachable', false],
  UND_ERR_CONNECT_TIMEOUT: ['connection timed out', false],
  ECONNRESET: ['connection reset', 'unknown'],
  EPIPE: ['connection reset', 'unknown'],
  ETIMEDOUT: ['connection timed out', 'unknown'],
  UND_ERR_SOCKET: ['connection closed by the other side', 'unknown'],
  UND_ERR_HEADERS_TIMEOUT: ['timed out waiting for an answer', 'unknown'],
  UND_ERR_BODY_TIMEOUT: ['timed out waiting for the rest of the answer', 'unknown'],
  UND_ERR_ABORTED: ['stopped', 'unknown'],
  UND_ERR_CLOSED: ['stopped', false],
  UND_ERR_DESTROYED: ['stopped', 'unknown'],
  HPE_INVALID_CONSTANT: ['answer is not HTTP', 'unknown'],
  CERT_HAS_EXPIRED: ['certificate has expired', false],
  DEPTH_ZERO_SELF_SIGNED_CERT: ['certificate is self-signed', false],
  SELF_SIGNED_CERT_IN_CHAIN: ['certificate is self-signed', false],
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: ['certificate cannot be verified', false],
  ERR_TLS_CERT_ALTNAME_INVALID: ['certificate is for another host', false],
};

/**
 * Describes an error that ended a request. Texts of unknown errors may quote a header or a body, so
 * only their code is used.
 */
export function describeFailure(error: unknown): {
  readonly text: string;
  readonly sent: false | 'unknown';
  readonly permanent: boolean;
} {
  const causes = causesOf(error);
  const refused = causes.find((cause) => cause instanceof RefusedAddressError);
  if (refused !== undefined) return { text: refused.message, sent: false, permanent: true };
  if (causes[0]?.code === INVALID_REQUEST) {
    return { text: 'header or path is not valid in HTTP', sent: false, permanent: true };
  }
  for (const { code, hostname } of causes) {
    const known = code === undefined ? undefined : KNOWN[code];
    if (known === undefined) continue;
    const [words, sent] = known;
    // A name that does not resolve is usually mistyped, so it is shown.
    const text = hostname === undefined ? words : `${words}: "${hostname}"`;
    return { text, sent, permanent: false };
  }
  const code = causes.find((cause) => cause.code !== undefined)?.code;
  const text = code === undefined ? UNKNOWN_REASON : `${UNKNOWN_REASON} (${code})`;
  return { text, sent: 'unknown', permanent: false };
}

/** A Node network error; `hostname` is the name that did not resolve. */
type FailureCause = Error & { readonly code?: string; readonly hostname?: string };

/** The error, its causes, and the single errors if several addresses were tried. */
function causesOf(error: unknown): FailureCause[] {
  if (!isNativeError(error)) return [];
  const errors: readonly unknown[] = error instanceof AggregateError ? error.errors : [];
  return [error, ...errors.flatMap(causesOf), ...causesOf(error.cause)];
}
