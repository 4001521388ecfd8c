import { Socket } from 'node:net';
import { Pool } from 'pg';
import type { LedgerDatabase } from '../../settings/settings.ts';
import { clientOptions, type DatabaseRow, type Statement } from './session.ts';

/** Runs a single statement outside of any transaction that writes. */
export type RunQuery = (statement: Statement) => Promise<readonly DatabaseRow[]>;

/** A pool of connections for reading. */
export interface Readers {
  readonly query: RunQuery;
  /** Runs `work` on one connection whose queries all see the same moment. */
  snapshot<T>(work: (query: RunQuery) => Promise<T>): Promise<T>;
  end(): Promise<void>;
}

const READERS = 4;
const ANSWER_MS = 60_000;
/** Shorter than an answer may take, because the timeout also ends idle connections. */
const IDLE_MS = 30_000;

/** `answerMs`: time without any data after which a connection counts as lost; above 30 seconds. */
export function createReaders(database: LedgerDatabase, answerMs = ANSWER_MS): Readers {
  const pool = new Pool({
    ...clientOptions(database),
    max: READERS,
    idleTimeoutMillis: IDLE_MS,
    allowExitOnIdle: true,
  });
  // The server may end an idle connection; that is no failure.
  pool.on('error', () => undefined);
  pool.on('connect', (client) => {
    // A pending query receives the error.
    client.on('error', () => undefined);
    const { stream } = client.connection;
    // One timer per connection: the driver's timer per query would delay garbage collection of
    // results.
    if (!(stream instanceof Socket)) return;
    stream.setTimeout(answerMs, () => {
      stream.destroy(new Error(`no answer for ${answerMs / 1_000} s`));
    });
  });
  const run = async (runner: Pick<Pool, 'query'>, { text, values = [] }: Statement) => {
    const { rows } = await runner.query({ text, values: [...values] });
    return rows;
  };
  return {
    // The pool closes a connection whose query failed; the server needs no cleanup.
    query: (statement) => run(pool, statement),
    async snapshot(work) {
      const client = await pool.connect();
      let isDone = false;
      try {
        await client.query('begin isolation level repeatable read read only');
        const result = await work((statement) => run(client, statement));
        await client.query('commit');
        isDone = true;
        return result;
      } finally {
        // An unfinished transaction ends with its connection.
        client.release(!isDone);
      }
    },
    end: () => pool.end(),
  };
}
