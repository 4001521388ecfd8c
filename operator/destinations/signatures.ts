import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Secret } from '../model/secret.ts';

/** A request header; undefined when it is absent. */
export type HeaderOf = (name: string) => string | undefined;

/** A request as it arrived. The body is unchanged, since the signature covers its bytes. */
export interface SignedRequest {
  readonly header: HeaderOf;
  readonly body: Uint8Array;
}

/**
 * `unsigned`: headers of the signature are missing or malformed, which the sender can see anyway.
 * `refused`: anything else. It names no reason, which would help a forger.
 */
export type Verification =
  | { readonly kind: 'signed' }
  | { readonly kind: 'unsigned'; readonly reason: string }
  | { readonly kind: 'refused' };

/** The accepted difference between a message's time and ours, in both directions. */
export const TOLERANCE_SECONDS = 300;

/** Returns the HMAC-SHA256 of the concatenated parts. */
export function hmac(secret: Secret, ...parts: readonly (string | Uint8Array)[]): Buffer {
  const mac = createHmac('sha256', secret.reveal());
  for (const part of parts) mac.update(part);
  return mac.digest();
}

/** Returns whether any signature matches any expected one. Compares all pairs in constant time. */
export function anyMatches(signatures: readonly Buffer[], expected: readonly Buffer[]): boolean {
  let found = false;
  for (const signature of signatures) {
    for (const candidate of expected) {
      if (signature.length !== candidate.length) continue;
      found = timingSafeEqual(signature, candidate) || found;
    }
  }
  return found;
}
