import { once } from 'node:events';
import { Client } from 'pg';
import type { LedgerDatabase } from '../../../operator/config/settings.ts';
import { CopyIn, CopyOut } from '../../../operator/ledger/postgres/copy.ts';

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
  return {
    async run(text) {
      await client.query(text);
    },
    async into(table, rows) {
      await new Promise<void>((resolve, reject) => {
        const copy = new CopyIn(`copy ${table} from stdin`, rows, (error) => {
          if (error === undefined) resolve();
          else reject(error);
        });
        client.query(copy);
      });
    },
    async outOf(query) {
      let bytes = 0;
      const copy = new CopyOut(`copy (${query}) to stdout`, (piece) => {
        bytes += piece.length;
      });
      const ended = once(copy, 'end');
      client.query(copy);
      await ended;
      return bytes;
    },
    end: () => client.end(),
  };
}
