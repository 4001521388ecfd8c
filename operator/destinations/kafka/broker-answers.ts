import type { Socket } from 'node:net';

/**
 * An answer of a broker that breaks Kafka's protocol or its bounds
 * (docs/how-to/destinations/kafka.md#what-a-broker-may-answer). The message quotes only numbers of
 * the answer.
 */
export class BadAnswerError extends Error {
  readonly code = 'ERR_BAD_BROKER_ANSWER';
}

/**
 * The bound of one answer. The largest needed answer lists a topic's partitions: some 42 bytes each
 * with three replicas. The client parses an answer of this size within a quarter of a second.
 */
export const MOST_ANSWER_BYTES = 128 * 1024;
/** Bound of all answers together that brokers announced to one client and have not completed. */
const MOST_PENDING_BYTES = 8 * 1024 * 1024;
const LENGTH_BYTES = 4;
/** An answer begins with the number of its request. */
const LEAST_ANSWER_BYTES = 4;
/** The first bytes of a TLS record: its type, 20 to 23, and the version's major number. */
const TLS_TYPES: readonly number[] = [20, 21, 22, 23];
const TLS_MAJOR = 3;

/** Bytes that brokers have announced to the connections of one client and not yet sent. */
export interface PendingBytes {
  bytes: number;
}

/**
 * Passes only complete answers of a bounded size from a socket to a client. A bad answer, or an
 * error that the client throws over one, ends the connection. `onBadAnswer` receives the reason.
 */
export function guardAnswers(
  socket: Socket,
  pending: PendingBytes,
  onBadAnswer: (error: BadAnswerError) => void,
): void {
  const answers = new AnswerReader(pending);
  const emit = socket.emit.bind(socket);
  const pass = (event: string | symbol, ...values: unknown[]): boolean => {
    if (event === 'close') answers.close();
    const [chunk] = values;
    try {
      if (event !== 'data' || !Buffer.isBuffer(chunk)) return emit(event, ...values);
      for (const answer of answers.read(chunk)) if (!socket.destroyed) emit('data', answer);
    } catch (cause) {
      const isBad = cause instanceof BadAnswerError;
      const error = isBad ? cause : new BadAnswerError('an answer cannot be read', { cause });
      onBadAnswer(error);
      socket.destroy(error);
    }
    return true;
  };
  socket.emit = pass;
}

/** Assembles the answers of one connection, each with its length before it. */
export class AnswerReader {
  readonly #pending: PendingBytes;
  #length = Buffer.alloc(LENGTH_BYTES);
  /** The answer that is arriving; undefined while its length is incomplete. */
  #answer: Buffer | undefined;
  #filled = 0;

  constructor(pending: PendingBytes) {
    this.#pending = pending;
  }

  /** Yields the answers that a chunk completes. Throws a {@link BadAnswerError}. */
  *read(chunk: Buffer): Generator<Buffer> {
    for (let at = 0; at < chunk.length; ) {
      const target = this.#answer ?? this.#length;
      const copied = chunk.copy(target, this.#filled, at);
      at += copied;
      this.#filled += copied;
      if (this.#filled < target.length) return;
      if (this.#answer === undefined) this.#begin();
      else {
        const answer = this.#answer;
        this.close();
        yield answer;
      }
    }
  }

  /** Discards an incomplete answer. */
  close(): void {
    this.#pending.bytes -= this.#answer?.length ?? 0;
    this.#answer = undefined;
    this.#filled = 0;
  }

  #begin(): void {
    const [type = 0, major] = this.#length;
    if (TLS_TYPES.includes(type) && major === TLS_MAJOR) throw new BadAnswerError(TLS_MISSING);
    const bytes = this.#length.readInt32BE();
    if (bytes < LEAST_ANSWER_BYTES || bytes > MOST_ANSWER_BYTES) {
      throw new BadAnswerError(
        `an answer of ${LEAST_ANSWER_BYTES} to ${MOST_ANSWER_BYTES} bytes was expected: "${bytes}"`,
      );
    }
    if (this.#pending.bytes + bytes > MOST_PENDING_BYTES) {
      throw new BadAnswerError(`more than ${MOST_PENDING_BYTES} bytes of unfinished answers`);
    }
    this.#answer = Buffer.alloc(LENGTH_BYTES + bytes);
    this.#length.copy(this.#answer);
    this.#pending.bytes += this.#answer.length;
  }
}

/** The client's own words for the same problem. */
export const TLS_MISSING = 'Broker requires TLS.';
