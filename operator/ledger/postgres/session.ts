import { readFileSync } from 'node:fs';
import type { ConnectionOptions } from 'node:tls';
import { Client, type ClientConfig, type CustomTypesConfig } from 'pg';
import type { LedgerDatabase } from '../../settings/settings.ts';

/** A statement with its parameters. Without them, several statements separated by semicolons. */
export interface Statement {
  readonly text: string;
  readonly values?: readonly unknown[];
  /** Expected number of rows; any other number is an error. */
  readonly rows?: number;
}

/** Each value is the server's text, so that no number is rounded and no time is converted. */
export type DatabaseRow = Readonly<Record<string, string | null>>;

export interface StatementResult {
  /** `COMMIT`, or `ROLLBACK` for a commit of a failed transaction. */
  readonly command: string;
  readonly rowCount: number | null;
  readonly rows: readonly DatabaseRow[];
}

const CONNECT_TIMEOUT_MS = 10_000;
const KEEP_ALIVE_MS = 5_000;

/** Leaves every value as text. */
const AS_TEXT: CustomTypesConfig = { getTypeParser: () => (text: string) => text };

/** Connection options of sessions and of the pool of readers. */
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
    // Read at each connection, so that a renewed file is used.
    ...(caFile !== undefined && { ca: readFileSync(caFile) }),
  };
}

/**
 * Connects. `answerMs`: time without an answer after which the connection counts as lost. A batch
 * of many statements may take longer as long as answers arrive: a retry would only add load to a
 * slow server.
 */
export async function openSession(database: LedgerDatabase, answerMs: number): Promise<Session> {
  const client = new Client({ ...clientOptions(database), pipeline: true });
  const session = new Session(client, answerMs);
  await client.connect();
  return session;
}

/**
 * One connection for transactions. Statements are sent together and answered in order; each answer
 * is checked. Destroy it after an error or timeout, and never cancel a statement: a cancelled wait
 * for the standby looks like a commit.
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
   * Runs statements in one round trip and returns a result for each. Sends all of them before it
   * returns. Rejects with the first error after all are answered.
   */
  async run(statements: readonly Statement[]): Promise<readonly StatementResult[]> {
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

  /** Sends all statements in one write, so that neither side wakes up for each. */
  #sendAll(
    statements: readonly Statement[],
  ): readonly Promise<StatementResult | readonly StatementResult[]>[] {
    const { stream } = this.#client.connection;
    stream.cork();
    try {
      return statements.map((statement) => this.#send(statement));
    } finally {
      stream.uncork();
    }
  }

  #send({ text, values }: Statement): Promise<StatementResult | readonly StatementResult[]> {
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

const NO_RESULT: StatementResult = { command: '', rowCount: null, rows: [] };

/** The last result of a text with several statements. */
function lastOf(answer: StatementResult | readonly StatementResult[]): StatementResult {
  return 'command' in answer ? answer : (answer.at(-1) ?? NO_RESULT);
}

function expectRows(result: StatementResult, statement: Statement | undefined): StatementResult {
  const expected = statement?.rows;
  if (expected === undefined || expected === result.rowCount) return result;
  const text = statement?.text.trim().split('\n')[0] ?? '';
  throw new Error(`${text}: ${expected} rows expected: "${result.rowCount}"`);
}
