import { Pool } from 'pg';
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
const IDLE_MS = 30_000;

export function createReaders(database: LedgerDatabase): Readers {
  const pool = new Pool({
    ...clientOptions(database),
    max: READERS,
    idleTimeoutMillis: IDLE_MS,
    // The pool closes a connection whose query failed; nothing of a reader is left to be done on the server.
    query_timeout: ANSWER_MS,
    allowExitOnIdle: true,
  });
  // An idle connection that the server ends is no failure of anything.
  pool.on('error', () => undefined);
  return {
    async query({ text, values }) {
      const { rows } = await pool.query({ text, values: [...(values ?? [])] });
      return rows;
    },
    async copyOut(text, take) {
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
      // What the pool promises is the answer, whatever its types say of statements of one's own.
      const answer: unknown = pool.query(copy);
      await answer;
      if (wrong !== undefined) throw wrong;
    },
    end: () => pool.end(),
  };
}
