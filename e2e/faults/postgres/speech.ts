import { writeSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { LedgerFailure } from '../../../operator/ledger/ledger.ts';
import type { Message } from './messages.ts';

const RETRY_MS = 20;

/** Says one line on standard output, at once and whole. */
export function report(message: Message): void {
  writeSync(1, `${JSON.stringify(message)}\n`);
}

/** Tries until it is taken or never will be, and gives which; undefined when the signal was aborted before. */
export async function insist<T extends { readonly kind: string }>(
  attempt: () => Promise<T | LedgerFailure>,
  signal: AbortSignal,
): Promise<T | LedgerFailure | undefined> {
  while (!signal.aborted) {
    const outcome = await attempt();
    if (!isForNow(outcome)) return outcome;
    report({ kind: 'refused', cause: outcome.cause });
    await delay(RETRY_MS);
  }
  return undefined;
}

function isForNow(outcome: { readonly kind: string } | LedgerFailure): outcome is LedgerFailure {
  if (outcome.kind !== 'failed' || !('cause' in outcome)) return false;
  return outcome.cause === 'retryable' || outcome.cause === 'full';
}
