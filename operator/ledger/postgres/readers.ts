import { Socket } from 'node:net';
import { Pool } from 'pg';
import type { LedgerDatabase } from '../../settings/settings.ts';
import { clientOptions, type Row, type Statement } from './session.ts';

/** Runs a single statement outside of any transaction that writes. */
export type Query = (statement: Statement) => Promise<readonly Row[]>;

/** Connections for reading, taken as needed. */
export interface Readers {
  readonly query: Query;
  /** Runs `work` on one connection, for which all queries see the same moment. */
  snapshot<T>(work: (query: Query) => Promise<T>): Promise<T>;
  end(): Promise<void>;
}

const READERS = 4;
const ANSWER_MS = 60_000;
/** Less than an answer may take: nobody waits for one on a connection that is idle. */
const IDLE_MS = 30_000;

/** `answerMs`: how long nothing may come of an answer before its connection counts as lost; more than half a minute. */
export function createReaders(database: LedgerDatabase, answerMs = ANSWER_MS): Readers {
  const pool = new Pool({
    ...clientOptions(database),
    max: READERS,
    idleTimeoutMillis: IDLE_MS,
    allowExitOnIdle: true,
  });
  // An idle connection that the server ends is no failure of anything.
  pool.on('error', () => undefined);
  pool.on('connect', (client) => {
    // Whoever waits for an answer is told.
    client.on('error', () => undefined);
    const { stream } = client.connection;
    // Once for each connection: with a timer for each query, as the driver has them, what was read outlives several collections.
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
    // The pool closes a connection whose query failed; nothing of a reader is left to be done on the server.
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
        // Whatever is left of a transaction ends with its connection.
        client.release(!isDone);
      }
    },
    end: () => pool.end(),
  };
}
