import { checksumOf, keySeed, sealValue } from './checked-value.ts';
import type { Database, Operation } from './database.ts';
import type { EntryChange } from './requests.ts';
import { addEntry, type EntrySum, removeEntry } from './state.ts';

/** The operations of entry changes, and the sum of all entries after them. */
export async function planChanges(
  changes: readonly EntryChange[],
  before: EntrySum,
  database: Database,
): Promise<{ readonly operations: readonly Operation[]; readonly sum: EntrySum }> {
  const operations: Operation[] = [];
  if (changes.length === 0) return { operations, sum: before };
  let sum = before;
  const oldValues = await database.getMany(changes.map(({ key }) => key));
  for (const [index, { key, body }] of changes.entries()) {
    const old = oldValues[index];
    if (old !== undefined) sum = removeEntry(sum, checksumOf(old));
    if (body !== undefined) {
      const value = sealValue(keySeed(key), body);
      sum = addEntry(sum, checksumOf(value));
      operations.push({ type: 'put', key, value });
      continue;
    }
    if (old !== undefined) operations.push({ type: 'del', key });
  }
  return { operations, sum };
}
