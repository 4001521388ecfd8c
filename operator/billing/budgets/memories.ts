import type { Ledger, RecordChange } from '../../ledger/ledger.ts';
import { isRecord } from '../../model/is-record.ts';
import { quote } from '../../model/quote.ts';
import { renamedKeys } from '../../model/renamed-keys.ts';
import type { BudgetMemory, Crossing } from './evaluate.ts';

const PREFIX = 'budgets/state/';

/** Reads the budget records of earlier processes. Throws when the ledger cannot be read. */
export async function loadMemories(ledger: Pick<Ledger, 'records'>): Promise<{
  /** By tenant. */
  readonly memories: Map<string, BudgetMemory>;
  /** Damaged records, one line each. */
  readonly problems: readonly string[];
}> {
  const memories = new Map<string, BudgetMemory>();
  const problems: string[] = [];
  for await (const [key, text] of ledger.records(PREFIX)) {
    const memory = parseMemory(text);
    if (memory === undefined) problems.push(`damaged record, ignored: ${key}: ${quote(text)}`);
    else memories.set(key.slice(PREFIX.length), memory);
  }
  return { memories, problems };
}

/** The ledger record of a tenant's budget. With undefined it deletes the record. */
export function memoryRecord(tenant: string, memory: BudgetMemory | undefined): RecordChange {
  return { key: `${PREFIX}${tenant}`, value: memory && JSON.stringify(memory) };
}

/** Names of fields in records of earlier versions, each with the present name. */
const EARLIER_NAMES = new Map([
  ['told', 'notified'],
  ['toldTo', 'notifiedTo'],
]);

function parseMemory(text: string): BudgetMemory | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (!isMemory(value)) return undefined;
    // JSON has no Infinity, which is the end of prepaid balances.
    const { from, to, crossed } = value;
    return {
      ...value,
      from: from ?? Number.POSITIVE_INFINITY,
      to: to ?? Number.POSITIVE_INFINITY,
      crossed: crossed.map((one: object) => renamedKeys(one, EARLIER_NAMES) as Crossing),
    };
  } catch {
    return undefined;
  }
}

type StoredMemory = Omit<BudgetMemory, 'from' | 'to'> &
  Readonly<Record<'from' | 'to', number | null>>;

/** Only this module writes under the prefix, so a few fields show whether a record is intact. */
function isMemory(value: unknown): value is StoredMemory {
  const isComplete =
    isRecord(value) && ['from', 'to', 'terms', 'crossed', 'state'].every((field) => field in value);
  return isComplete && Array.isArray(value['crossed']);
}
