import type { PriceBookSpec } from '../settings/custom-resources.generated.ts';
import type { Ledger, WriteOutcome } from '../ledger/ledger.ts';
import { isRecord } from '../model/is-record.ts';

/** Where price books are kept. */
export type PriceRecords = Pick<Ledger, 'record' | 'writeRecords'>;

/** A PriceBook by its name; the uid tells it from one of the same name that was made anew. */
export interface BookIdentity {
  readonly name: string;
  readonly uid: string;
}

const PREFIX = 'costs/book/';

/**
 * The spec that was last in force of this very object, so that a restart neither takes its prices away where the newest
 * spec is broken, nor forgets which of them cannot be changed (docs/how-to/costs.md#when-prices-change).
 */
export async function storedSpec(
  records: PriceRecords,
  { name, uid }: BookIdentity,
): Promise<PriceBookSpec | undefined> {
  const stored = parse(await records.record(PREFIX + name));
  return stored?.uid === uid ? stored.spec : undefined;
}

/** All specs that were last in force, by name; of a ledger of which another process has the PriceBooks. */
export async function storedSpecs(
  records: Pick<Ledger, 'records'>,
): Promise<ReadonlyMap<string, PriceBookSpec>> {
  const specs = new Map<string, PriceBookSpec>();
  for await (const [key, text] of records.records(PREFIX)) {
    const stored = parse(text);
    if (stored !== undefined) specs.set(key.slice(PREFIX.length), stored.spec);
  }
  return specs;
}

/** Keeps the spec that has come into force; writes nothing where it is kept already. */
export async function keepSpec(
  records: PriceRecords,
  { name, uid, spec }: BookIdentity & { readonly spec: PriceBookSpec },
): Promise<WriteOutcome> {
  const key = PREFIX + name;
  const value = JSON.stringify({ uid, spec });
  if ((await records.record(key)) === value) return { kind: 'written' };
  return records.writeRecords([{ key, value }]);
}

export function dropSpec(records: PriceRecords, name: string): Promise<WriteOutcome> {
  return records.writeRecords([{ key: PREFIX + name, value: undefined }]);
}

interface StoredBook {
  readonly uid: string;
  readonly spec: PriceBookSpec;
}

function parse(text: string | undefined): StoredBook | undefined {
  if (text === undefined) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return isStoredBook(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Only this module writes under the prefix, so a few fields tell a whole record from a damaged one. */
function isStoredBook(value: unknown): value is StoredBook {
  if (!isRecord(value)) return false;
  const { uid, spec } = value;
  return typeof uid === 'string' && isRecord(spec) && Array.isArray(spec['prices']);
}
