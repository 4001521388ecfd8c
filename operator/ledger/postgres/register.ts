import { randomUUID } from 'node:crypto';
import { FIRST_CHAIN } from '../event-chain.ts';
import { ledgerFailure } from '../failures.ts';
import type { StreamName } from '../fleet.ts';
import { LedgerReadError } from '../ledger.ts';
import { LOCK_TABLES } from './migrate.ts';
import type { Session, Statement } from './session.ts';
import { type Contents, readContents } from './state.ts';
import { beginText, commit } from './transaction.ts';
import { registerWriter } from './writers.ts';

const LOCK_TIMEOUT_MS = 15_000;

/** What a process that comes to a stream does: `lead` makes it the meter, and whoever was it before is refused from now on. */
export type Entry = 'lead' | 'join';

/**
 * Makes a process a writer of a stream, and the stream where there is none. Throws a LedgerReadError when another stream has this region, or when this one is a copy
 * that is not finished.
 */
export async function enterStream(
  session: Session,
  { source, region }: StreamName,
  owner: string,
  retentionMs: number,
  now: number,
  entry: Entry,
): Promise<Contents> {
  const [, others] = await session.run([
    { text: `${beginText(LOCK_TIMEOUT_MS)}; ${LOCK_TABLES}` },
    {
      text: `select source from meterfeed.stream
        where (region = $1 and source <> $2) or (source = $2 and copying)`,
      values: [region, source],
    },
  ]);
  const other = others?.rows[0]?.['source'];
  if (other === source) throw unfinishedCopy(source);
  if (typeof other === 'string') throw sameRegion(source, other, region);
  await session.run([
    {
      text: `insert into meterfeed.stream (stream, source, region, ledger_id, created_at, epoch,
          owner, head, batch, chain, series_head, low_water, horizon, retention_ms)
        select coalesce(max(stream), 0) + 1, $1, $2, $3, $4, 0, '', 0, 0, $5, 0, 0, 0, $6
          from meterfeed.stream
        on conflict (source) do nothing`,
      values: [source, region, randomUUID(), now, FIRST_CHAIN, retentionMs],
    },
  ]);
  const lead: Statement = {
    text: `update meterfeed.stream set epoch = epoch + 1, owner = $2, region = $3, retention_ms = $4
      where source = $1 returning stream`,
    values: [source, owner, region, retentionMs],
    rows: 1,
  };
  const join: Statement = {
    text: 'select stream from meterfeed.stream where source = $1 for update',
    values: [source],
    rows: 1,
  };
  const [entered] = await session.run([entry === 'lead' ? lead : join]);
  const stream = Number(entered?.rows[0]?.['stream']);
  await session.run(registerWriter(stream, owner));
  // Within the transaction: whoever takes it over after the commit has another epoch.
  const contents = await readContents(session, stream);
  await commit(session);
  return contents;
}

function unfinishedCopy(source: string): LedgerReadError {
  const text = `stream: what is copied into it is not all there: "${source}"`;
  const mend = 'run npm run ledger -- migrate again, which goes on where it was';
  return new LedgerReadError(ledgerFailure('invalid', `${text}; ${mend}`));
}

/** Why two streams cannot have one region. */
export function sameRegion(source: string, other: string, region: string): LedgerReadError {
  const text = `REGION: event ids contain it, and the stream of another cluster has the same: "${region}"`;
  const mend = `give ${source} and ${other} different ones`;
  return new LedgerReadError(ledgerFailure('invalid', `${text}; ${mend}`));
}
