import type { LedgerDatabase } from '../../settings/settings.ts';
import type { StreamName } from '../fleet.ts';
import type { LedgerFailure } from '../ledger.ts';
import { toLedgerFailure } from './failures.ts';
import { schemaOf } from './schema-name.ts';
import { openSession, type Session } from './session.ts';
import { STREAM_STEPS } from './tables.ts';

/** A stream's schema compared with this program's. Only a leader migrates `none` and `older`. */
export type SchemaState = 'none' | 'older' | 'current' | 'newer';

/** State of a stream in the database, read without a lock. */
export interface SeenStream {
  readonly kind: 'seen';
  readonly schema: SchemaState;
  /** The last leader; `''` if there was none. */
  readonly owner: string;
  /** Grows with every leader; 0 if there was none. */
  readonly epoch: number;
}

/** Less than the five seconds within which a candidate needs an answer. */
const ANSWER_MS = 3_000;

/** Reads a stream's row on a separate session, without writing, or returns why it cannot. */
export async function readStreamState(
  database: LedgerDatabase,
  { source }: Pick<StreamName, 'source'>,
): Promise<SeenStream | LedgerFailure> {
  const { host, port, name } = database;
  try {
    const session = await openSession(database, ANSWER_MS);
    try {
      return { kind: 'seen', ...(await readRows(session, schemaOf(source))) };
    } finally {
      await session.end();
    }
  } catch (error) {
    return toLedgerFailure(`${host}:${port}/${name}`, error);
  }
}

async function readRows(session: Session, schema: string): Promise<Omit<SeenStream, 'kind'>> {
  const nothing = { schema: 'none', owner: '', epoch: 0 } as const;
  const [tables] = await session.run([
    { text: 'select to_regclass($1) is not null as present', values: [`${schema}.version`] },
  ]);
  if (tables?.rows[0]?.['present'] !== 't') return nothing;
  const [version] = await session.run([
    { text: `select coalesce(max(version), 0) as version from ${schema}.version`, values: [] },
  ]);
  const known = Number(version?.rows[0]?.['version']);
  if (known === 0) return nothing;
  const [stream] = await session.run([
    { text: `select owner, epoch from ${schema}.stream`, values: [] },
  ]);
  const row = stream?.rows[0];
  const steps = STREAM_STEPS.length;
  return {
    schema: known > steps ? 'newer' : known < steps ? 'older' : 'current',
    owner: row?.['owner'] ?? '',
    epoch: Number(row?.['epoch'] ?? 0),
  };
}
