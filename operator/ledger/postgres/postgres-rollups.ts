import { ledgerFailure } from '../failures.ts';
import { LedgerReadError } from '../ledger.ts';
import { AFTER_ALL_KEYS, type Rollups, type RollupView } from '../rollups.ts';
import { changeRecords } from './entries.ts';
import type { RunQuery, Readers } from './readers.ts';
import { readKeys, reading } from './reading.ts';
import type { Statement } from './session.ts';

/** Runs statements in a transaction of the writer. Rejects if it is uncertain what is stored. */
export type WriteRollups = (statements: readonly Statement[]) => Promise<void>;

/** Sums in a table of a stream's schema. All its readers may read, only its operator writes. */
export class PostgresRollups implements Rollups {
  readonly #table: string;
  readonly #readers: Pick<Readers, 'snapshot'>;
  readonly #write: WriteRollups;
  #isThere = false;

  constructor(schema: string, readers: Pick<Readers, 'snapshot'>, write: WriteRollups = refuse) {
    this.#table = `${schema}.rollup`;
    this.#readers = readers;
    this.#write = write;
  }

  snapshot<T>(work: (view: RollupView) => Promise<T>): Promise<T> {
    return this.#readers.snapshot(async (query) => {
      this.#isThere ||= await isReadable(query, this.#table);
      return work(this.#isThere ? new TableView(query, this.#table) : NOTHING);
    });
  }

  put(texts: ReadonlyMap<string, string>): Promise<void> {
    return this.#write(changeRecords(this.#table, [...texts]));
  }

  drop(from: string, to: string): Promise<void> {
    const text = `delete from ${this.#table} where key >= $1 and key < $2`;
    return this.#write([{ text, values: [from, to] }]);
  }

  async close(): Promise<void> {}
}

/** An operator of an earlier release has no such table, or has not granted the hub access. */
async function isReadable(query: RunQuery, table: string): Promise<boolean> {
  const text = `select has_table_privilege(to_regclass($1), 'select') as readable`;
  const [row] = await reading(query({ text, values: [table] }));
  return row?.['readable'] === 't';
}

const NOTHING: RollupView = {
  get: async (keys) => keys.map(() => undefined),
  async *list() {},
  first: async () => undefined,
};

class TableView implements RollupView {
  readonly #query: RunQuery;
  readonly #table: string;

  constructor(query: RunQuery, table: string) {
    this.#query = query;
    this.#table = table;
  }

  async get(keys: readonly string[]): Promise<readonly (string | undefined)[]> {
    const text = `select key, value from ${this.#table} where key = any($1::text[])`;
    const rows = await reading(this.#query({ text, values: [keys] }));
    const found = new Map(rows.map(({ key, value }) => [key, value ?? undefined]));
    return keys.map((key) => found.get(key));
  }

  list(prefix: string): AsyncIterable<readonly [key: string, text: string]> {
    return readKeys(this.#query, this.#table, prefix);
  }

  async first(prefix: string): Promise<string | undefined> {
    const text = `select min(key) as key from ${this.#table} where key >= $1 and key < $2`;
    const values = [prefix, prefix + AFTER_ALL_KEYS];
    const [row] = await reading(this.#query({ text, values }));
    return row?.['key'] ?? undefined;
  }
}

async function refuse(): Promise<void> {
  const message = 'sums: the operator of the stream writes them';
  throw new LedgerReadError(ledgerFailure('invalid', message));
}
