import type { LedgerDatabase, LedgerDurability } from '../../settings/settings.ts';
import { ledgerFailure } from '../failures.ts';
import type { StreamName } from '../fleet.ts';
import { type Cursor, LedgerReadError } from '../ledger.ts';
import type { SequenceRange } from '../missing-ranges.ts';
import type { EncodedEvent } from '../writer.ts';
import { type Beginning, enterStream } from './enter-stream.ts';
import { migrateStream } from './migrate.ts';
import { schemaOf } from './schema-name.ts';
import { openSession, type Session } from './session.ts';
import type { Contents } from './state.ts';

/** A batch as its ledger has it. */
export interface CopiedBatch extends SequenceRange {
  readonly events: readonly EncodedEvent[];
  /** Milliseconds since the epoch. */
  readonly appendedAt: number;
  /** The chain value at its last event, hex. */
  readonly chain: string;
  /** The chain value before its first event, where the numbers before that may be missing. */
  readonly chainBefore?: string;
}

/** A ledger that a stream becomes a copy of. Nobody writes it meanwhile. */
export interface CopyOrigin {
  /** What the stream notes until the copy is complete. */
  readonly name: string;
  readonly beginning: Omit<Required<Beginning>, 'retentionMs'>;
  readonly head: number;
  readonly chain: string;
  /** Milliseconds since the epoch. */
  readonly horizon: number;
  readonly lastWindowEnd?: number;
  readonly cursors: readonly Cursor[];
  /** The batches behind a sequence number, in order. */
  batches(after: number): AsyncIterable<CopiedBatch>;
  records(): AsyncIterable<readonly [key: string, value: string]>;
}

export interface CopyOptions extends StreamName {
  readonly database: LedgerDatabase;
  readonly durability: LedgerDurability;
  /** Deletes what an unfinished copy has left in the stream, and begins again. */
  readonly startsOver: boolean;
}

const ANSWER_MS = 60_000;
/** Nobody may delete a week of it as old before its cursors are there. */
const RETAINED_FOR_EVER = Number.MAX_SAFE_INTEGER;

/** Makes the stream of a copy, or takes it from the process before. Undefined where the copy is complete. */
export async function beginCopy(
  { database, source, region, startsOver: anew }: CopyOptions,
  { name, beginning }: CopyOrigin,
  owner: string,
): Promise<Contents | undefined> {
  const schema = schemaOf(source);
  const session = await openSession(database, ANSWER_MS);
  try {
    await migrateStream(session, schema);
    const [found] = await session.run([
      { text: `select ledger_id, copied_from from ${schema}.stream`, values: [] },
    ]);
    const row = found?.rows[0];
    const isOurs = row?.['ledger_id'] === beginning.ledgerId;
    if (row?.['copied_from'] === null) {
      if (isOurs) return undefined;
      throw copyRefusal(`it has events of its own; nothing can be copied into it: "${source}"`);
    }
    if (row !== undefined && anew) await deleteStream(session, schema);
    else if (row !== undefined && !isOurs) {
      throw copyRefusal(
        `it is an unfinished copy of another ledger; --anew begins again: "${source}"`,
      );
    }
    const entrant = { source, region, owner, copiesFrom: name };
    return await enterStream(session, schema, entrant, {
      ...beginning,
      retentionMs: RETAINED_FOR_EVER,
    });
  } finally {
    await session.end();
  }
}

async function deleteStream(session: Session, schema: string): Promise<void> {
  const [found] = await session.run([
    {
      text: 'select inhrelid::regclass::text as name from pg_inherits where inhparent = to_regclass($1)',
      values: [`${schema}.event`],
    },
  ]);
  const partitions = found?.rows.map(({ name }) => `drop table ${name};`) ?? [];
  const tables = ['segment', 'batch', 'record', 'evidence', 'cursor', 'stream'];
  const names = tables.map((name) => `${schema}.${name}`).join(', ');
  await session.run([{ text: `begin; ${partitions.join(' ')} truncate ${names}; commit` }]);
}

/** Why a copy cannot go on. */
export function copyRefusal(text: string): LedgerReadError {
  return new LedgerReadError(ledgerFailure('invalid', `migrate: ${text}`));
}
