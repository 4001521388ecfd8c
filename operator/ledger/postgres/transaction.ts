import type { Session, Statement } from './session.ts';

/** Idle time in a transaction after which the server ends the session and releases its locks. */
const IDLE_TIMEOUT_MS = 5_000;

/**
 * The beginning of every writing transaction. All settings apply to this transaction only, so
 * poolers that share a connection between transactions do no harm.
 */
export function beginText(
  lockTimeoutMs: number,
  isolation: 'read committed' | 'repeatable read' = 'read committed',
): string {
  return [
    `begin isolation level ${isolation} read write`,
    'set local synchronous_commit = on',
    `set local lock_timeout = ${lockTimeoutMs}`,
    `set local idle_in_transaction_session_timeout = ${Math.max(IDLE_TIMEOUT_MS, lockTimeoutMs)}`,
  ].join('; ');
}

/** The result of a commit is unknown: it was neither confirmed nor refused. */
export class UnknownOutcomeError extends Error {}

/**
 * Commits. Throws an {@link UnknownOutcomeError} unless the server answers COMMIT without a
 * warning. A failed transaction answers ROLLBACK; one whose wait for the standby was cut short
 * answers COMMIT with a warning.
 */
export async function commit(session: Session): Promise<void> {
  session.takeNotices();
  let command: string | undefined;
  try {
    const [result] = await session.run([{ text: 'commit' }]);
    command = result?.command;
  } catch (cause) {
    throw new UnknownOutcomeError('commit: no answer', { cause });
  }
  const notices = session.takeNotices();
  if (command === 'COMMIT' && notices.length === 0) return;
  throw new UnknownOutcomeError(`commit: "${[command, ...notices].join('; ')}"`);
}

/** Ends a transaction without effect; destroys the session if that fails. */
export async function rollback(session: Session): Promise<void> {
  const text: Statement = { text: 'rollback' };
  await session.run([text]).catch(() => session.destroy());
}
