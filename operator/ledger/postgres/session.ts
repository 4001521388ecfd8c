import { readFileSync } from 'node:fs';
import type { ConnectionOptions } from 'node:tls';
import { Client, type ClientConfig, type CustomTypesConfig } from 'pg';
import type { LedgerDatabase } from '../../settings/settings.ts';

/** A statement with its parameters; one without may be several statements divided by semicolons. */
export interface Statement {
  readonly text: string;
  readonly values?: readonly unknown[];
  /** How many rows it must concern; any other number is an error. */
  readonly rows?: number;
}

/** Every value as the server writes it: no number is rounded and no time is moved on the way. */
export type Row = Readonly<Record<string, string | null>>;

export interface Result {
  /** `COMMIT`, or `ROLLBACK` where a commit did not happen although nothing was reported. */
  readonly command: string;
  readonly rowCount: number | null;
  readonly rows: readonly Row[];
}

const CONNECT_TIMEOUT_MS = 10_000;
const KEEP_ALIVE_MS = 5_000;

/** Hands every value through as text. */
const AS_TEXT: CustomTypesConfig = { getTypeParser: () => (text: string) => text };

/** What both sessions and the pool of readers connect with. */
export function clientOptions(database: LedgerDatabase): ClientConfig {
  const { host, port, user, name, password, tls } = database;
  return {
    host,
    port,
    user,
    database: name,
    password: password?.reveal() ?? '',
    ssl: tls.mode === 'disable' ? false : tlsOptions(tls),
    enableChannelBinding: tls.mode !== 'disable',
    application_name: 'meterfeed',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
    types: AS_TEXT,
  };
}

function tlsOptions({ mode, caFile }: LedgerDatabase['tls']): ConnectionOptions {
  return {
    rejectUnauthorized: mode === 'verify-full',
    // Read at each connection, so that a renewed file counts.
    ...(caFile !== undefined && { ca: readFileSync(caFile) }),
  };
}

/**
 * Connects. `answerMs`: how long each answer may take before the connection counts as lost. A batch of many statements
 * may take longer, as long as one answer after the other comes: given up, it would only be stored anew by a server
 * that is slow already.
 */
export async function openSession(database: LedgerDatabase, answerMs: number): Promise<Session> {
  const client = new Client({ ...clientOptions(database), pipeline: true });
  const session = new Session(client, answerMs);
  await client.connect();
  return session;
}

/**
 * One connection on which transactions are run. Statements go out together and are answered in order;
 * the answer of each is checked. When anything is wrong, or takes too long, destroy it: the server is
 * never asked to cancel, because a cancelled wait for the standby looks like a commit.
 */
export class Session {
  readonly #client: Client;
  readonly #answerMs: number;
  #notices: string[] = [];
  #usable = true;

  constructor(client: Client, answerMs: number) {
    this.#client = client;
    this.#answerMs = answerMs;
    client.on('error', () => {
      this.#usable = false;
    });
    client.on('end', () => {
      this.#usable = false;
    });
    client.on('notice', ({ code = '', message = '' }) => {
      this.#notices.push(`${code} ${message}`);
    });
  }

  /**
   * Runs statements in one round trip, an answer for each. All of them are sent before it returns. Rejects with the first
   * error, when all are answered.
   */
  async run(statements: readonly Statement[]): Promise<readonly Result[]> {
    const deadline = setTimeout(() => this.destroy(), this.#answerMs);
    try {
      const coming = this.#sendAll(statements);
      const answers = await Promise.allSettled(
        coming.map((answer) => answer.finally(() => deadline.refresh())),
      );
      const failed = answers.find((answer) => answer.status === 'rejected');
      if (failed !== undefined) throw failed.reason;
      return answers.map((answer, index) => {
        const result = answer.status === 'fulfilled' ? lastOf(answer.value) : NO_RESULT;
        return expectRows(result, statements[index]);
      });
    } finally {
      clearTimeout(deadline);
    }
  }

  /** In one piece, so that neither side is woken up for each part of it. */
  #sendAll(statements: readonly Statement[]): readonly Promise<Result | readonly Result[]>[] {
    const { stream } = this.#client.connection;
    stream.cork();
    try {
      return statements.map((statement) => this.#send(statement));
    } finally {
      stream.uncork();
    }
  }

  #send({ text, values }: Statement): Promise<Result | readonly Result[]> {
    return this.#client.query(values === undefined ? text : { text, values: [...values] });
  }

  /** Warnings of the server since the last call. */
  takeNotices(): readonly string[] {
    const notices = this.#notices;
    this.#notices = [];
    return notices;
  }

  /** False once the connection has failed or was destroyed. */
  usable(): boolean {
    return this.#usable;
  }

  destroy(): void {
    this.#usable = false;
    this.#client.connection.stream.destroy();
  }

  async end(): Promise<void> {
    if (!this.#usable) return;
    this.#usable = false;
    await this.#client.end();
  }
}

const NO_RESULT: Result = { command: '', rowCount: null, rows: [] };

/** Several statements in one text are answered one by one. */
function lastOf(answer: Result | readonly Result[]): Result {
  return 'command' in answer ? answer : (answer.at(-1) ?? NO_RESULT);
}

function expectRows(result: Result, statement: Statement | undefined): Result {
  const expected = statement?.rows;
  if (expected === undefined || expected === result.rowCount) return result;
  const text = statement?.text.trim().split('\n')[0] ?? '';
  throw new Error(`${text}: ${expected} rows expected: "${result.rowCount}"`);
}
