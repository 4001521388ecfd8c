import { errorText } from '../../model/error-text.ts';
import { damage } from '../failures.ts';
import type { FleetDatabase, StreamName } from '../fleet.ts';
import { createPostgresCustomers } from './customers.ts';
import { migrate } from './migrate.ts';
import { openPostgresLedger, type PostgresLedgerOptions } from './open-postgres-ledger.ts';
import { lookTogether } from './poll.ts';
import { createReaders } from './readers.ts';
import { openSession, type Row, type Session } from './session.ts';

/** What joining a stream takes beside its names. */
export type FleetDatabaseOptions = Omit<
  PostgresLedgerOptions,
  'source' | 'region' | 'entry' | 'team' | 'registry' | 'look'
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
    join: (stream) =>
      openPostgresLedger({ ...options, ...stream, entry: 'join', team: 'hub', look }),
    customers: createPostgresCustomers(database),
  };
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
