import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { LedgerDatabase, LedgerDurability } from '../../settings/settings.ts';
import { type LedgerFailure, LedgerReadError } from '../ledger.ts';
import { FencedWriter } from './fenced-writer.ts';
import { LOCK_HUB_LEASE } from './hub-lease.ts';
import { TAKEN_OVER } from './refusals.ts';
import { HUB_SCHEMA } from './schema-name.ts';
import { openSession } from './session.ts';
import { beginText, commit } from './transaction.ts';

const LOCK_TIMEOUT_MS = 5_000;

/**
 * Makes this process the writer of the hub's schema while it leads with `epoch`. Throws a
 * LedgerReadError if it does not lead; rejects if the database does not answer.
 */
export async function enterHub(
  options: {
    readonly database: LedgerDatabase;
    readonly durability: LedgerDurability;
    readonly answerMs: number;
    readonly onError: (failure: LedgerFailure) => void;
  },
  epoch: number,
): Promise<FencedWriter> {
  const owner = `${hostname()} ${randomUUID()}`;
  const table = `${HUB_SCHEMA}.writer`;
  // Selects no row if another process leads. The next leader waits for open transactions.
  const where = `only_row and (${LOCK_HUB_LEASE}) = ${epoch}`;
  const session = await openSession(options.database, options.answerMs);
  try {
    const [, entered] = await session.run([
      { text: beginText(LOCK_TIMEOUT_MS) },
      {
        text: `update ${table} set epoch = epoch + 1, owner = $1 where ${where}
          returning epoch, last_batch`,
        values: [owner],
      },
    ]);
    const row = entered?.rows[0];
    if (row === undefined) throw new LedgerReadError(TAKEN_OVER);
    await commit(session);
    return new FencedWriter({
      ...options,
      row: { table, where, columns: 'only_row' },
      owner,
      epoch: Number(row['epoch']),
      lastBatch: Number(row['last_batch']),
      differs: () => undefined,
    });
  } finally {
    await session.end();
  }
}
