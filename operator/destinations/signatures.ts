import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Secret } from '../model/secret.ts';

/** A request header; undefined when it is absent. */
export type HeaderOf = (name: string) => string | undefined;

/** A request as it arrived; the body byte for byte, since that is what is signed. */
export interface SignedRequest {
  readonly header: HeaderOf;
  readonly body: Uint8Array;
}

/**
 * `unsigned`: the headers that a signature needs are missing or not in their form, which the sender can
 * see for himself. `refused`: anything else, without saying what, which would help a forger.
 */
export type Verification =
  | { readonly kind: 'signed' }
  | { readonly kind: 'unsigned'; readonly reason: string }
  | { readonly kind: 'refused' };

/** How far a message's time may be from ours, in both directions. */
export const TOLERANCE_SECONDS = 300;

/** HMAC-SHA256 of the parts, one after the other. */
export function hmac(secret: Secret, ...parts: readonly (string | Uint8Array)[]): Buffer {
  const mac = createHmac('sha256', secret.reveal());
  for (const part of parts) mac.update(part);
  return mac.digest();
}

/** Whether any signature is any secret's. All pairs are compared, each in constant time. */
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
