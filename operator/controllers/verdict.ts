import type { ConditionClaim } from './conditions.ts';
import type { InvalidSpec } from '../config/spec-fields.ts';

/** What became of the newest spec of an object. */
export type Verdict =
  | { readonly kind: 'accepted' }
  /** Refused; `inForce` tells whether an earlier, good one goes on. */
  | (InvalidSpec & { readonly inForce: boolean })
  /** Not known yet, and being tried again: a Secret that cannot be read at the moment. */
  | { readonly kind: 'waiting'; readonly message: string };

/** `Stalled`, and only while it holds: its absence says that the newest spec is in force (kstatus). */
export function stalledClaims(verdict: Verdict): readonly ConditionClaim[] {
  if (verdict.kind !== 'invalid') return [];
  const rest = verdict.inForce ? 'the last good settings stay in force' : 'nothing is in force';
  const message = `${verdict.message} (${rest})`;
  return [{ type: 'Stalled', status: 'True', reason: verdict.reason, message }];
}

/** `Ready` as far as the spec decides it; undefined when the engine does. */
export function readyBySpec(verdict: Verdict): ConditionClaim | undefined {
  if (verdict.kind === 'accepted') return undefined;
  if (verdict.kind === 'invalid') {
    return { type: 'Ready', status: 'False', reason: verdict.reason, message: verdict.message };
  }
  return { type: 'Ready', status: 'Unknown', reason: 'SecretUnreadable', message: verdict.message };
}
