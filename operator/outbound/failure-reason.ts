import { isNativeError } from 'node:util/types';
import { RefusedAddressError } from './address-guard.ts';

const INVALID_REQUEST = 'UND_ERR_INVALID_ARG';
const UNKNOWN_REASON = 'connection failed';

/** By error code: the words, and whether the error can only happen before anything was sent. */
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
 * Reads an error that a request ended with. Texts of unknown errors are not passed on, since they
 * may quote a header or a body; their code is.
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
    // A name that leads nowhere is most often mistyped, so it is shown.
    const text = hostname === undefined ? words : `${words}: "${hostname}"`;
    return { text, sent, permanent: false };
  }
  const code = causes.find((cause) => cause.code !== undefined)?.code;
  const text = code === undefined ? UNKNOWN_REASON : `${UNKNOWN_REASON} (${code})`;
  return { text, sent: 'unknown', permanent: false };
}

/** As Node's network errors are; `hostname` is the name that a name server was asked for. */
type FailureCause = Error & { readonly code?: string; readonly hostname?: string };

/** The error, what it was caused by, and the parts of it when several addresses were tried. */
function causesOf(error: unknown): FailureCause[] {
  if (!isNativeError(error)) return [];
  const parts: readonly unknown[] = error instanceof AggregateError ? error.errors : [];
  return [error, ...parts.flatMap(causesOf), ...causesOf(error.cause)];
}
