import { once } from 'node:events';
import { Socket } from 'node:net';
import { Pool, type PoolClient } from 'pg';
import type { LedgerDatabase } from '../../config/settings.ts';
import { errorText } from '../../model/error-text.ts';
import { CopyOut } from './copy.ts';
import { clientOptions, type Row, type Statement } from './session.ts';

/** Runs a single statement outside of any transaction that writes. */
export type Query = (statement: Statement) => Promise<readonly Row[]>;

/** Runs a `COPY … TO STDOUT`; each piece is its row's only until `take` returns. */
export type RunCopyOut = (text: string, take: (piece: Buffer) => void) => Promise<void>;

export interface Reads {
  readonly query: Query;
  readonly copyOut: RunCopyOut;
}

/** Connections for reading, taken as needed. */
export interface Readers extends Reads {
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
  return {
    // The pool closes a connection whose query failed; nothing of a reader is left to be done on the server.
    async query({ text, values = [] }) {
      const { rows } = await pool.query({ text, values: [...values] });
      return rows;
    },
    async copyOut(text, take) {
      const client = await pool.connect();
      let wrong: Error | undefined;
      try {
        wrong = await copyFrom(client, text, take);
      } catch (error) {
        client.release(true);
        throw error;
      }
      client.release();
      if (wrong !== undefined) throw wrong;
    },
    end: () => pool.end(),
  };
}

/** Why a row could not be taken, if one could not; rejects where the server or the connection fails. */
async function copyFrom(
  client: PoolClient,
  text: string,
  take: (piece: Buffer) => void,
): Promise<Error | undefined> {
  let wrong: Error | undefined;
  const copy = new CopyOut(text, (piece) => {
    if (wrong !== undefined) return;
    try {
      take(piece);
    } catch (error) {
      // Nobody catches it where the driver reads from its connection.
      wrong = new Error(`a row cannot be read: ${errorText(error)}`, { cause: error });
    }
  });
  const ended = once(copy, 'end');
  client.query(copy);
  await ended;
  return wrong;
}
