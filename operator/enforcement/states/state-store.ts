import { isRecord } from '../../model/is-record.ts';
import { quote } from '../../model/quote.ts';
import type { Ledger, RecordChange, WriteOutcome } from '../../ledger/ledger.ts';
import { isEmpty, type TenantRecord } from './tenant-record.ts';

/** Where enforcement keeps what must survive a restart. */
export type RecordStore = Pick<Ledger, 'records' | 'writeRecords'>;

const PREFIX = 'enforcement/tenant/';

/** The billing states of all tenants: in memory as they are on disk. */
export interface StateStore {
  find(tenant: string): TenantRecord | undefined;
  all(): readonly TenantRecord[];
  /** Durably puts records, and whatever else must be written in the same unit. */
  putAll(records: readonly TenantRecord[], more?: readonly RecordChange[]): Promise<WriteOutcome>;
  /**
   * Reads what there is on disk, in place of all that is known. Gives the records that cannot be read, one line each; throws
   * when the ledger cannot be.
   */
  load(): Promise<readonly string[]>;
}

/** Empty, until it is loaded. */
export function createStates(ledger: RecordStore): StateStore {
  const records = new Map<string, TenantRecord>();

  const load: StateStore['load'] = async () => {
    const problems: string[] = [];
    records.clear();
    for await (const [key, text] of ledger.records(PREFIX)) {
      const record = parseRecord(text);
      if (record === undefined) {
        problems.push(`damaged record, passed over: ${key}: ${quote(text)}`);
      } else records.set(record.tenant, record);
    }
    return problems;
  };

  const putAll: StateStore['putAll'] = async (changed, more = []) => {
    const changes = changed.map((record) => ({
      key: `${PREFIX}${record.tenant}`,
      value: isEmpty(record) ? undefined : JSON.stringify(record),
    }));
    const outcome = await ledger.writeRecords([...changes, ...more]);
    if (outcome.kind === 'failed') return outcome;
    for (const record of changed) {
      if (isEmpty(record)) records.delete(record.tenant);
      else records.set(record.tenant, record);
    }
    return outcome;
  };

  return {
    find: (tenant) => records.get(tenant),
    all: () => [...records.values()],
    putAll,
    load,
  };
}

function parseRecord(text: string): TenantRecord | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isTenantRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Only this module writes under the prefix, so a few fields tell a whole record from a damaged one. */
function isTenantRecord(value: unknown): value is TenantRecord {
  const isWhole =
    isRecord(value) && ['tenant', 'entries', 'settled', 'since'].every((field) => field in value);
  return isWhole && Array.isArray(value['entries']);
}
