import type { LedgerDatabase, LedgerDurability } from '../../settings/settings.ts';
import { ledgerFailure } from '../failures.ts';
import type { StreamName } from '../fleet.ts';
import { type Cursor, LedgerReadError } from '../ledger.ts';
import type { EventRange } from '../missing-ranges.ts';
import type { EncodedEvent } from '../writer.ts';
import { type Beginning, enterStream } from './enter-stream.ts';
import { migrateStream } from './migrate.ts';
import { schemaOf } from './schema-name.ts';
import { openSession, type Session } from './session.ts';
import type { StreamContents } from './state.ts';

/** A batch of the copied ledger. */
export interface CopiedBatch extends EventRange {
  readonly events: readonly EncodedEvent[];
  /** Milliseconds since the epoch. */
  readonly appendedAt: number;
  /** The chain value at its last event, hex. */
  readonly chain: string;
  /** The chain value before its first event; set if earlier numbers may be missing. */
  readonly chainBefore?: string;
}

/** A ledger to copy into a stream. No process writes it meanwhile. */
export interface CopyOrigin {
  /** The name that the stream records until the copy is complete. */
  readonly name: string;
  readonly beginning: Omit<Required<Beginning>, 'retentionMs'>;
  readonly head: number;
  readonly chain: string;
  /** Milliseconds since the epoch. */
  readonly horizon: number;
  readonly lastWindowEnd?: number;
  readonly cursors: readonly Cursor[];
  /** The batches after a sequence number, in order. */
  batches(after: number): AsyncIterable<CopiedBatch>;
  records(): AsyncIterable<readonly [key: string, value: string]>;
}

export interface CopyOptions extends StreamName {
  readonly database: LedgerDatabase;
  readonly durability: LedgerDurability;
  /** Deletes an unfinished copy from the stream and starts again. */
  readonly startsOver: boolean;
}

const ANSWER_MS = 60_000;
/** Keeps every week until the cursors are copied. */
const RETAINED_FOR_EVER = Number.MAX_SAFE_INTEGER;

/** Creates a copy's stream, or takes it over from an earlier process. Undefined if complete. */
export async function beginCopy(
  { database, source, region, startsOver }: CopyOptions,
  { name, beginning }: CopyOrigin,
  owner: string,
): Promise<StreamContents | undefined> {
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
    if (row !== undefined && startsOver) await deleteStream(session, schema);
    else if (row !== undefined && !isOurs) {
      throw copyRefusal(
        `it is an unfinished copy of another ledger; --start-over starts again: "${source}"`,
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

/** The error for a copy that cannot continue. */
export function copyRefusal(text: string): LedgerReadError {
  return new LedgerReadError(ledgerFailure('invalid', `migrate: ${text}`));
}
