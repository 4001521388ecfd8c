import { randomUUID } from 'node:crypto';
import { FIRST_CHAIN } from '../event-chain.ts';
import { ledgerFailure } from '../failures.ts';
import type { StreamName } from '../fleet.ts';
import { LedgerReadError } from '../ledger.ts';
import type { Session } from './session.ts';
import { type StreamContents, readContents } from './state.ts';
import { beginText, commit } from './transaction.ts';

const LOCK_TIMEOUT_MS = 15_000;

/** A process that wants to write a stream. */
export interface Entrant extends StreamName {
  readonly owner: string;
  /** Name of the ledger that it copies into the stream; required to enter an unfinished copy. */
  readonly copiesFrom?: string;
}

/** Initial values of a new stream. Times are milliseconds. */
export interface Beginning {
  readonly retentionMs: number;
  readonly createdAt: number;
  readonly ledgerId?: string;
  readonly lowWater?: number;
  readonly chain?: string;
  readonly linkedFrom?: number;
}

/**
 * Makes a process the writer of a stream and creates the stream if there is none; the previous
 * writer is fenced. Throws a LedgerReadError if the schema belongs to another CLUSTER_NAME or
 * contains an incomplete copy.
 */
export async function enterStream(
  session: Session,
  schema: string,
  { source, region, owner, copiesFrom }: Entrant,
  beginning: Beginning,
): Promise<StreamContents> {
  const { retentionMs, createdAt, ledgerId = randomUUID() } = beginning;
  const { lowWater = 0, chain = FIRST_CHAIN, linkedFrom = 1 } = beginning;
  const [, , entered] = await session.run([
    { text: beginText(LOCK_TIMEOUT_MS) },
    {
      text: `insert into ${schema}.stream (ledger_id, source, region, created_at, epoch, owner, head, low_water,
          horizon, last_batch, chain, linked_from, retention_ms, copied_from)
        values ($1, $2, $3, $4, 0, '', $5, $5, 0, 0, $6, $7, $8, $9)
        on conflict do nothing`,
      values: [
        ledgerId,
        source,
        region,
        createdAt,
        lowWater,
        chain,
        linkedFrom,
        retentionMs,
        copiesFrom ?? null,
      ],
    },
    {
      text: `update ${schema}.stream set epoch = epoch + 1, owner = $1, region = $2, retention_ms = $3,
          linked_from = case when copied_from is null then linked_from else $4 end
        returning source, copied_from`,
      values: [owner, region, retentionMs, linkedFrom],
      rows: 1,
    },
  ]);
  const { source: found, copied_from: from } = entered?.rows[0] ?? {};
  if (found !== source)
    throw refusal(`the schema ${schema} belongs to another cluster: "${found}"`);
  if (typeof from === 'string' && from !== copiesFrom) {
    const fix = 'run npm run ledger -- migrate again to continue it';
    throw refusal(`the copy from ${from} is not complete: "${source}"; ${fix}`);
  }
  if (lowWater > 0) {
    // The chain of the oldest event starts from the batch before it.
    const text = `insert into ${schema}.batch (last_seq, first_seq, min_start, max_start, appended_at, chain)
      values ($1::bigint, $1::bigint, 0, -1, $2, $3) on conflict do nothing`;
    await session.run([{ text, values: [lowWater, createdAt, chain] }]);
  }
  // Read within the transaction: a process that takes over after the commit has another epoch.
  const contents = await readContents(session, schema);
  await commit(session);
  return contents;
}

function refusal(what: string): LedgerReadError {
  return new LedgerReadError(ledgerFailure('invalid', `stream: ${what}`));
}
