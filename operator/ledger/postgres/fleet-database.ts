import { errorText } from '../../model/error-text.ts';
import { override } from '../../model/override.ts';
import { damage, ledgerFailure } from '../failures.ts';
import { type FleetDatabase, isHubRecord, type StreamName } from '../fleet.ts';
import type { Ledger, LedgerFailure, RecordChange } from '../ledger.ts';
import { PostgresCustomers } from './customers.ts';
import { migrate } from './migrate.ts';
import { openPostgresLedger, type PostgresLedgerOptions } from './open-postgres-ledger.ts';
import { lookTogether } from './poll.ts';
import { createReaders } from './readers.ts';
import { openSession, type Row, type Session } from './session.ts';

/** What opening a stream takes beside its names. */
export type FleetDatabaseOptions = Omit<
  PostgresLedgerOptions,
  'source' | 'region' | 'entry' | 'team' | 'registry' | 'look' | 'hub'
>;

const ANSWER_MS = 30_000;

/** A PostgreSQL database with many streams. Nothing is connected until something is asked. */
export function createFleetDatabase(options: FleetDatabaseOptions): FleetDatabase {
  const { database, clock } = options;
  const look = lookTogether(createReaders(database).query, clock);
  const name = `${database.host}:${database.port}/${database.name}`;
  let isMigrated = false;
  return {
    name,
    streams: async () => {
      try {
        const session = await openSession(database, ANSWER_MS);
        try {
          // A hub may be there before any meter.
          if (!isMigrated) await migrate(session);
          isMigrated = true;
          return await streamsOf(session);
        } finally {
          await session.end();
        }
      } catch (error) {
        throw new Error(`${name}: ${errorText(error)}`, { cause: error });
      }
    },
    open: async (stream, epoch) => {
      const opened = await openPostgresLedger({ ...options, ...stream, hub: epoch, look });
      if (opened.kind === 'failed') return opened;
      return { kind: 'opened', ledger: asHub(opened.ledger) };
    },
    customers: (epoch) => new PostgresCustomers(database, epoch),
  };
}

/** The operator of a stream alone appends to it, and writes the records that are not the hub's. */
function asHub(ledger: Ledger): Ledger {
  return override<Ledger>(ledger, {
    append: async () => refusal('append: a hub appends nothing to a stream'),
    writeRecords: async (changes) => refuse(changes) ?? ledger.writeRecords(changes),
    commitCursor: async (destination, sequence, commit) =>
      refuse(commit?.records) ?? ledger.commitCursor(destination, sequence, commit),
  });
}

function refuse(changes: readonly RecordChange[] = []): LedgerFailure | undefined {
  const wrong = changes.find(({ key }) => !isHubRecord(key));
  return wrong && refusal(`record: the operator of the stream writes it: "${wrong.key}"`);
}

function refusal(message: string): LedgerFailure {
  return ledgerFailure('invalid', message);
}

async function streamsOf(session: Session): Promise<readonly StreamName[]> {
  const [found] = await session.run([
    {
      text: 'select source, region from meterfeed.stream where not copying order by stream',
      values: [],
    },
  ]);
  return (found?.rows ?? []).map(streamNameOf);
}

function streamNameOf({ source, region }: Row): StreamName {
  if (typeof source === 'string' && typeof region === 'string') return { source, region };
  throw damage('stream', 'a row without a name');
}
