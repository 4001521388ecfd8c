import { type Connection, Query, type QueryResult } from 'pg';

/** What pg's connection can do beyond its types (pg/lib/connection.js). */
interface CopyConnection extends Connection {
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
  sendCopyFail(message: string): void;
}

/**
 * `COPY … FROM STDIN` with all that it is given, sent at once: the server drops what follows a COPY that it refuses
 * (https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-COPY), so that its answer to the statement need not
 * be waited for, and stores one piece while the next is made.
 */
export class CopyIn extends Query {
  readonly #text: string;
  readonly #pieces: Iterable<Buffer>;

  constructor(
    text: string,
    pieces: Iterable<Buffer>,
    done: (error: Error | undefined, result: QueryResult) => void,
  ) {
    super(text, (error, result) => done(error ?? undefined, result));
    this.#text = text;
    this.#pieces = pieces;
  }

  override submit = (connection: Connection): void => {
    const copying = connection as CopyConnection;
    copying.query(this.#text);
    try {
      for (const piece of this.#pieces) copying.sendCopyFromChunk(piece);
      copying.endCopyFrom();
    } catch (error) {
      // The server refuses the statement then, with this for a reason.
      copying.sendCopyFail(String(error));
    }
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
