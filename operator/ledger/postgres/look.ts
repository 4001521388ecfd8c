import type { LedgerDatabase } from '../../config/settings.ts';
import type { StreamName } from '../fleet.ts';
import type { LedgerFailure } from '../ledger.ts';
import { toLedgerFailure } from './failures.ts';
import { SCHEMA_VERSION } from './migrate.ts';
import { openSession, type Session } from './session.ts';

/** How the tables of a database stand to what this program knows. Only a leader migrates `none` and `older`. */
export type SchemaState = 'none' | 'older' | 'current' | 'newer';

/** What a database says of a stream, without a lock. */
export interface SeenStream {
  readonly kind: 'seen';
  readonly schema: SchemaState;
  /** Which process led last; `''` where none ever did. */
  readonly owner: string;
  /** Grows with every leader; 0 where there was none. */
  readonly epoch: number;
}

/** Less than the five seconds in which a candidate must have had an answer. */
const ANSWER_MS = 3_000;

/**
 * Reads the row of a stream on a session of its own, and writes nothing. The failure says why the database cannot
 * be read.
 */
export async function lookAtStream(
  database: LedgerDatabase,
  { source }: Pick<StreamName, 'source'>,
): Promise<SeenStream | LedgerFailure> {
  const { host, port, name } = database;
  try {
    const session = await openSession(database, ANSWER_MS);
    try {
      return { kind: 'seen', ...(await readState(session, source)) };
    } finally {
      await session.end();
    }
  } catch (error) {
    return toLedgerFailure(`${host}:${port}/${name}`, error);
  }
}

async function readState(session: Session, source: string): Promise<Omit<SeenStream, 'kind'>> {
  const nothing = { schema: 'none', owner: '', epoch: 0 } as const;
  const [tables] = await session.run([
    { text: `select to_regclass('meterfeed.version') as version`, values: [] },
  ]);
  const [{ version: table = null } = {}] = tables?.rows ?? [];
  if (table === null) return nothing;
  const [version] = await session.run([
    { text: 'select coalesce(max(version), 0) as version from meterfeed.version', values: [] },
  ]);
  const known = Number(version?.rows[0]?.['version']);
  if (known === 0) return nothing;
  const [stream] = await session.run([
    { text: 'select owner, epoch from meterfeed.stream where source = $1', values: [source] },
  ]);
  const row = stream?.rows[0];
  return {
    schema: known > SCHEMA_VERSION ? 'newer' : known < SCHEMA_VERSION ? 'older' : 'current',
    owner: row?.['owner'] ?? '',
    epoch: Number(row?.['epoch'] ?? 0),
  };
}
