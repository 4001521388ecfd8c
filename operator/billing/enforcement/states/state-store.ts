import { parseRecord } from '../../../model/parse-record.ts';
import { isRecord } from '../../../model/is-record.ts';
import { quote } from '../../../model/quote.ts';
import type { RecordChange, RecordStore, WriteOutcome } from '../../../ledger/ledger.ts';
import { isEmpty, type TenantRecord } from './tenant-record.ts';

const PREFIX = 'enforcement/tenant/';

/** The billing states of all tenants, in memory and in the ledger. Call `load` first. */
export class StateStore {
  readonly #ledger: RecordStore;
  readonly #records = new Map<string, TenantRecord>();

  constructor(ledger: RecordStore) {
    this.#ledger = ledger;
  }

  find(tenant: string): TenantRecord | undefined {
    return this.#records.get(tenant);
  }

  all(): readonly TenantRecord[] {
    return [...this.#records.values()];
  }

  /**
   * Replaces everything known by the records of the ledger. Returns the damaged records, one line
   * each. Throws when the ledger cannot be read.
   */
  async load(): Promise<readonly string[]> {
    const problems: string[] = [];
    this.#records.clear();
    for await (const [key, text] of this.#ledger.records(PREFIX)) {
      const record = parseRecord(text, isTenantRecord);
      if (record === undefined) {
        problems.push(`damaged record, ignored: ${key}: ${quote(text)}`);
      } else this.#records.set(record.tenant, record);
    }
    return problems;
  }

  /** Durably writes records, and `more` in the same transaction. */
  async putAll(
    changed: readonly TenantRecord[],
    more: readonly RecordChange[] = [],
  ): Promise<WriteOutcome> {
    const changes = changed.map((record) => ({
      key: `${PREFIX}${record.tenant}`,
      value: isEmpty(record) ? undefined : JSON.stringify(record),
    }));
    const outcome = await this.#ledger.writeRecords([...changes, ...more]);
    if (outcome.kind === 'failed') return outcome;
    for (const record of changed) {
      if (isEmpty(record)) this.#records.delete(record.tenant);
      else this.#records.set(record.tenant, record);
    }
    return outcome;
  }
}

/** Only this module writes under the prefix, so a few fields show whether a record is intact. */
function isTenantRecord(value: unknown): value is TenantRecord {
  const isComplete =
    isRecord(value) && ['tenant', 'entries', 'settled', 'since'].every((field) => field in value);
  return isComplete && Array.isArray(value['entries']);
}
