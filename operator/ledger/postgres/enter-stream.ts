import { randomUUID } from 'node:crypto';
import { FIRST_CHAIN } from '../event-chain.ts';
import { ledgerFailure } from '../failures.ts';
import type { StreamName } from '../fleet.ts';
import { LedgerReadError } from '../ledger.ts';
import type { Session } from './session.ts';
import { type Contents, readContents } from './state.ts';
import { beginText, commit } from './transaction.ts';

const LOCK_TIMEOUT_MS = 15_000;

/** Who comes to write a stream. */
export interface Entrant extends StreamName {
  readonly owner: string;
  /** What it copies into the stream; only it enters a stream that is being copied from there. */
  readonly copiesFrom?: string;
}

/** What a stream begins with where there is none. Times are milliseconds. */
export interface Beginning {
  readonly retentionMs: number;
  readonly createdAt: number;
  readonly ledgerId?: string;
  readonly lowWater?: number;
  readonly chain?: string;
  readonly linkedFrom?: number;
}

/**
 * Makes a process the writer of a stream, and the stream where there is none; the writer before is refused from now on. Throws
 * a LedgerReadError when the schema has the stream of another CLUSTER_NAME, or a copy that is not complete.
 */
export async function enterStream(
  session: Session,
  schema: string,
  { source, region, owner, copiesFrom }: Entrant,
  beginning: Beginning,
): Promise<Contents> {
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
    throw refusal(`the schema ${schema} is that of another cluster: "${found}"`);
  if (typeof from === 'string' && from !== copiesFrom) {
    const fix = 'run npm run ledger -- migrate again, which goes on where it was';
    throw refusal(`what is copied into it from ${from} is not complete: "${source}"; ${fix}`);
  }
  if (lowWater > 0) {
    // The chain of the oldest event begins with the batch before it.
    const text = `insert into ${schema}.batch (last_seq, first_seq, min_start, max_start, appended_at, chain)
      values ($1::bigint, $1::bigint, 0, -1, $2, $3) on conflict do nothing`;
    await session.run([{ text, values: [lowWater, createdAt, chain] }]);
  }
  // Within the transaction: a process that takes the stream over after the commit has another epoch.
  const contents = await readContents(session, schema);
  await commit(session);
  return contents;
}

function refusal(what: string): LedgerReadError {
  return new LedgerReadError(ledgerFailure('invalid', `stream: ${what}`));
}
