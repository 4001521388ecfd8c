import type { Ledger, RecordChange } from '../../ledger/ledger.ts';
import { isRecord } from '../../model/is-record.ts';
import { quote } from '../../model/quote.ts';
import type { BudgetMemory } from './evaluate.ts';

const PREFIX = 'budgets/state/';

/** Reads what earlier processes have recorded of budgets. Throws when the ledger cannot be read. */
export async function loadMemories(ledger: Pick<Ledger, 'records'>): Promise<{
  /** By tenant. */
  readonly memories: Map<string, BudgetMemory>;
  /** Records that cannot be read, one line each. */
  readonly problems: readonly string[];
}> {
  const memories = new Map<string, BudgetMemory>();
  const problems: string[] = [];
  for await (const [key, text] of ledger.records(PREFIX)) {
    const memory = parseMemory(text);
    if (memory === undefined) problems.push(`damaged record, passed over: ${key}: ${quote(text)}`);
    else memories.set(key.slice(PREFIX.length), memory);
  }
  return { memories, problems };
}

/** The record of a tenant's budget; undefined forgets it. */
export function memoryRecord(tenant: string, memory: BudgetMemory | undefined): RecordChange {
  return { key: `${PREFIX}${tenant}`, value: memory && JSON.stringify(memory) };
}

function parseMemory(text: string): BudgetMemory | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (!isMemory(value)) return undefined;
    // JSON has no Infinity, which prepaid balances end at.
    const { from, to } = value;
    return { ...value, from: from ?? Number.POSITIVE_INFINITY, to: to ?? Number.POSITIVE_INFINITY };
  } catch {
    return undefined;
  }
}

type StoredMemory = Omit<BudgetMemory, 'from' | 'to'> &
  Readonly<Record<'from' | 'to', number | null>>;

/** Only this module writes under the prefix, so a few fields tell a whole record from a damaged one. */
function isMemory(value: unknown): value is StoredMemory {
  const isComplete =
    isRecord(value) && ['from', 'to', 'terms', 'crossed', 'state'].every((field) => field in value);
  return isComplete && Array.isArray(value['crossed']);
}
