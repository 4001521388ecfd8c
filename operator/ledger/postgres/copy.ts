import { type Connection, Query, type QueryResult } from 'pg';

/** What pg's connection can do beyond its types (pg/lib/connection.js). */
interface CopyConnection extends Connection {
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
}

/**
 * `COPY … FROM STDIN` with all that it is given, sent at once: the server drops what follows a COPY that it refuses
 * (https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-COPY), so that its answer to the statement need not
 * be waited for.
 */
export class CopyIn extends Query {
  readonly #text: string;
  readonly #input: Buffer;

  constructor(
    text: string,
    input: Buffer,
    done: (error: Error | undefined, result: QueryResult) => void,
  ) {
    super(text, (error, result) => done(error ?? undefined, result));
    this.#text = text;
    this.#input = input;
  }

  override submit = (connection: Connection): void => {
    const copying = connection as CopyConnection;
    copying.query(this.#text);
    copying.sendCopyFromChunk(this.#input);
    copying.endCopyFrom();
  };

  /** The answer to the statement; everything is on its way already. */
  handleCopyInResponse(): void {}
}

/** `COPY … TO STDOUT`. Each piece holds one row, and is no more than lent: the driver writes over it. */
export class CopyOut extends Query {
  readonly #take: (piece: Buffer) => void;

  constructor(text: string, take: (piece: Buffer) => void) {
    super(text);
    this.#take = take;
  }

  handleCopyData({ chunk }: { readonly chunk: Buffer }): void {
    this.#take(chunk);
  }
}
