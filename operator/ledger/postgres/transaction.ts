import type { Session, Statement } from './session.ts';

/** How long a session may keep a transaction open without a word before the server ends it and frees its locks. */
const IDLE_TIMEOUT_MS = 5_000;

/**
 * The beginning of every transaction that writes. Everything is set for this transaction alone, so that
 * poolers which hand a connection from one transaction to the next do no harm.
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

/** The outcome of a commit is not known: it was neither confirmed nor refused. */
export class UnknownOutcomeError extends Error {}

/**
 * Commits. Throws an {@link UnknownOutcomeError} unless the server said COMMIT and nothing else: a failed
 * transaction answers ROLLBACK, and one whose wait for the standby was cut short answers COMMIT with a warning.
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

/** Ends a transaction that is to leave nothing behind; a session that cannot is destroyed. */
export async function rollback(session: Session): Promise<void> {
  const text: Statement = { text: 'rollback' };
  await session.run([text]).catch(() => session.destroy());
}
