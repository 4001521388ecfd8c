import { parseRecord } from '../model/parse-record.ts';
import type { PriceBookSpec } from '../settings/custom-resources.generated.ts';
import type { Ledger, WriteOutcome } from '../ledger/ledger.ts';
import { isRecord } from '../model/is-record.ts';

/** The ledger records of price books. */
export type PriceRecords = Pick<Ledger, 'record' | 'writeRecords'>;

/** A PriceBook's name and uid. A new object of the same name has another uid. */
export interface BookIdentity {
  readonly name: string;
  readonly uid: string;
}

const PREFIX = 'costs/book/';

/**
 * Returns the last spec in force of an object. With it, a restart keeps the prices of an object
 * whose newest spec is invalid, and still refuses changes of past prices
 * (docs/how-to/costs.md#when-prices-change).
 */
export async function storedSpec(
  records: PriceRecords,
  { name, uid }: BookIdentity,
): Promise<PriceBookSpec | undefined> {
  const text = await records.record(PREFIX + name);
  const stored = text === undefined ? undefined : parseRecord(text, isStoredBook);
  return stored?.uid === uid ? stored.spec : undefined;
}

/** Returns all specs last in force, by name. For ledgers of another process's PriceBooks. */
export async function storedSpecs(
  records: Pick<Ledger, 'records'>,
): Promise<ReadonlyMap<string, PriceBookSpec>> {
  const specs = new Map<string, PriceBookSpec>();
  for await (const [key, text] of records.records(PREFIX)) {
    const stored = parseRecord(text, isStoredBook);
    if (stored !== undefined) specs.set(key.slice(PREFIX.length), stored.spec);
  }
  return specs;
}

/** Stores the spec in force. Writes nothing if it is stored already. */
export async function storeSpec(
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

/** Returns whether a record is complete. Only this module writes them, so a few fields suffice. */
function isStoredBook(
  value: unknown,
): value is { readonly uid: string; readonly spec: PriceBookSpec } {
  if (!isRecord(value)) return false;
  const { uid, spec } = value;
  return typeof uid === 'string' && isRecord(spec) && Array.isArray(spec['prices']);
}
