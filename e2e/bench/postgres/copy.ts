import { Client, type Connection, Query } from 'pg';
import type { LedgerDatabase } from '../../../operator/config/settings.ts';

/** COPY on a connection of its own: the quickest way into and out of a table. */
export interface Copying {
  /** Runs statements that give nothing back. */
  run(text: string): Promise<void>;
  /** One COPY … FROM STDIN, which is a transaction of its own. */
  into(table: string, rows: Buffer): Promise<void>;
  /** COPY (query) TO STDOUT; the number of bytes that came. */
  outOf(query: string): Promise<number>;
  end(): Promise<void>;
}

export async function openCopying({ host, port, user, name }: LedgerDatabase): Promise<Copying> {
  const client = new Client({ host, port, user, database: name });
  await client.connect();
  const submit = (text: string, rows?: Buffer): Promise<CopyQuery> =>
    new Promise((resolve, reject) => {
      const query = new CopyQuery(text, rows, (error) => {
        if (error === undefined) resolve(query);
        else reject(error);
      });
      client.query(query);
    });
  return {
    async run(text) {
      await client.query(text);
    },
    async into(table, rows) {
      await submit(`copy ${table} from stdin`, rows);
    },
    async outOf(query) {
      return (await submit(`copy (${query}) to stdout`)).bytes;
    },
    end: () => client.end(),
  };
}

/** What pg's connection can do beyond its types (pg/lib/connection.js). */
interface CopyConnection extends Connection {
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
}

/** A query that answers COPY; pg itself gives up on it. */
class CopyQuery extends Query {
  readonly #rows: Buffer | undefined;
  bytes = 0;

  constructor(text: string, rows: Buffer | undefined, done: (error: Error | undefined) => void) {
    super(text, (error) => done(error ?? undefined));
    this.#rows = rows;
  }

  handleCopyInResponse(connection: CopyConnection): void {
    if (this.#rows !== undefined) connection.sendCopyFromChunk(this.#rows);
    connection.endCopyFrom();
  }

  handleCopyData({ chunk }: { readonly chunk: Buffer }): void {
    this.bytes += chunk.length;
  }
}
