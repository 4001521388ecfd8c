import type { LedgerDatabase, LedgerDurability } from '../../config/settings.ts';
import { ledgerFailure } from '../failures.ts';
import type { StreamName } from '../fleet.ts';
import { LedgerReadError } from '../ledger.ts';
import { LOCK_TABLES, migrate } from './migrate.ts';
import { sameRegion } from './register.ts';
import { openSession, type Session } from './session.ts';
import { type Contents, readContents } from './state.ts';
import { beginText, commit, rollback } from './transaction.ts';
import { registerWriter } from './writers.ts';

/** The ledger that a stream becomes a copy of. */
export interface CopyOrigin {
  readonly ledgerId: string;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  /** The sequence number before its oldest event. */
  readonly lowWater: number;
  /** The chain value before its oldest event, hex. */
  readonly firstChain: string;
}

export interface CopyOptions extends StreamName {
  readonly database: LedgerDatabase;
  readonly durability: LedgerDurability;
  /** Deletes what an unfinished copy has left in the stream, and begins again. */
  readonly anew: boolean;
}

/** Deleting millions of events takes its time. */
const BEGIN_MS = 1_800_000;
const LOCK_TIMEOUT_MS = 60_000;

/**
 * Makes the stream of a copy, or takes it from the process before. Gives undefined where the copy is finished. Throws a
 * LedgerReadError when the stream is anything else.
 */
export async function beginCopy(
  options: CopyOptions,
  origin: CopyOrigin,
  owner: string,
): Promise<Contents | undefined> {
  const session = await openSession(options.database, BEGIN_MS);
  try {
    await migrate(session);
    return await takeCopy(session, options, origin, owner);
  } finally {
    await session.end();
  }
}

async function takeCopy(
  session: Session,
  { source, region, anew }: CopyOptions,
  origin: CopyOrigin,
  owner: string,
): Promise<Contents | undefined> {
  const [, found] = await session.run([
    { text: `${beginText(LOCK_TIMEOUT_MS)}; ${LOCK_TABLES}` },
    {
      text: `select stream, source, ledger_id, copying from meterfeed.stream
        where source = $1 or region = $2`,
      values: [source, region],
    },
  ]);
  const rows = found?.rows ?? [];
  const other = rows.find((row) => row['source'] !== source)?.['source'];
  if (typeof other === 'string') throw sameRegion(source, other, region);
  const [row] = rows;
  const isOurs = row?.['ledger_id'] === origin.ledgerId;
  if (row?.['copying'] === 'f') {
    if (!isOurs) throw refusal(source, 'it has events of its own; nothing can be copied into it');
    await rollback(session);
    return undefined;
  }
  let stream = row === undefined ? undefined : Number(row['stream']);
  if (stream !== undefined && anew) {
    await deleteStream(session, stream);
    stream = undefined;
  }
  if (stream !== undefined && !isOurs) {
    throw refusal(source, 'it is an unfinished copy of another ledger; --anew begins again');
  }
  const taken =
    stream === undefined
      ? await insertStream(session, { source, region }, origin, owner)
      : await resume(session, stream, owner);
  await session.run(registerWriter(taken, owner));
  const contents = await readContents(session, taken);
  await commit(session);
  return contents;
}

async function deleteStream(session: Session, stream: number): Promise<void> {
  const tables = [
    'event',
    'series',
    'segment',
    'batch',
    'record',
    'cursor',
    'writer',
    'lease',
    'stream',
  ];
  await session.run(
    tables.map((name) => ({
      text: `delete from meterfeed.${name} where stream = $1`,
      values: [stream],
    })),
  );
}

async function insertStream(
  session: Session,
  { source, region }: StreamName,
  { ledgerId, createdAt, lowWater, firstChain }: CopyOrigin,
  owner: string,
): Promise<number> {
  // Nobody may delete a day of it as old before its cursors are there.
  const keptForEver = Number.MAX_SAFE_INTEGER;
  const [inserted] = await session.run([
    {
      text: `insert into meterfeed.stream (stream, source, region, ledger_id, created_at, epoch,
          owner, head, batch, chain, series_head, low_water, horizon, retention_ms, copying)
        select coalesce(max(stream), 0) + 1, $1, $2, $3, $4, 1,
          $5, $6::bigint, 0, $7, 0, $6::bigint, 0, $8, true
          from meterfeed.stream
        returning stream`,
      values: [source, region, ledgerId, createdAt, owner, lowWater, firstChain, keptForEver],
      rows: 1,
    },
  ]);
  return Number(inserted?.rows[0]?.['stream']);
}

async function resume(session: Session, stream: number, owner: string): Promise<number> {
  await session.run([
    {
      text: 'update meterfeed.stream set epoch = epoch + 1, owner = $2 where stream = $1',
      values: [stream, owner],
      rows: 1,
    },
  ]);
  return stream;
}

function refusal(source: string, why: string): LedgerReadError {
  return new LedgerReadError(ledgerFailure('invalid', `stream: ${why}: "${source}"`));
}
