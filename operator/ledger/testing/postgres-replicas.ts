import type { LedgerDatabase } from '../../config/settings.ts';
import { override } from '../../model/override.ts';
import type { Ledger, Replica } from '../ledger.ts';
import {
  openPostgresLedger,
  type PostgresLedgerOptions,
} from '../postgres/open-postgres-ledger.ts';
import { postgresOptions } from './postgres-options.ts';

/** One of several that have a stream open. */
export interface TestReplica extends Replica {
  /** The ledger of the meter, whoever that is. */
  readonly ledger: Ledger;
}

/** Joins a stream; throws when it cannot. */
export async function joinTestStream(
  database: LedgerDatabase,
  options: Partial<PostgresLedgerOptions> = {},
): Promise<TestReplica> {
  const outcome = await openPostgresLedger(
    postgresOptions(database, { ...options, entry: 'join' }),
  );
  if (outcome.kind === 'failed') throw new Error(outcome.message);
  const { ledger, replica } = outcome;
  if (replica === undefined) throw new Error('it has not joined');
  return { ...replica, ledger };
}

/** Two that have a stream open, as one ledger: each write is the other's turn, who has seen nothing of the last one. */
export async function joinInTurns(
  database: LedgerDatabase,
  options: Partial<PostgresLedgerOptions> = {},
): Promise<Ledger> {
  const first = await joinTestStream(database, options);
  const second = await joinTestStream(database, options);
  await first.lead();
  let turn = second.open;
  /** Who wrote last, and has seen everything. */
  let last = first.open;
  const next = async <T>(write: (ledger: Ledger) => Promise<T>): Promise<T> => {
    turn = turn === first.open ? second.open : first.open;
    const writing = turn;
    const outcome = await write(writing);
    last = writing;
    return outcome;
  };
  return override<Ledger>(first.ledger, {
    append: (batch) => next((ledger) => ledger.append(batch)),
    commitCursor: (...call) => next((ledger) => ledger.commitCursor(...call)),
    moveCursor: (...call) => next((ledger) => ledger.moveCursor(...call)),
    retireCursor: (...call) => next((ledger) => ledger.retireCursor(...call)),
    dropCursor: (...call) => next((ledger) => ledger.dropCursor(...call)),
    writeRecords: (changes) => next((ledger) => ledger.writeRecords(changes)),
    read: (...call) => last.read(...call),
    scan: (...call) => last.scan(...call),
    find: (id) => last.find(id),
    head: () => last.head(),
    lowWater: () => last.lowWater(),
    cursors: () => last.cursors(),
    stats: () => last.stats(),
    verify: (signal) => last.verify(signal),
    retain: async (now) => {
      last = first.open;
      await first.ledger.retain(now);
    },
    close: async () => {
      await first.ledger.close();
      await second.ledger.close();
    },
  });
}
