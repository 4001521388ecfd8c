import type { Ledger, RecordChange } from '../ledger/ledger.ts';
import type { ReportedRequest } from './reported-request.ts';

/** Stored dead letters; older ones are deleted. All are counted by the metric. */
export const MOST_LETTERS = 1_000;

const LETTERS = 'intake/refused/';
const MOST_CHARACTERS = 256;

/** A part of a body that does not count, with its reason. */
export interface RefusedRequest {
  /** The sender's id of the event, if that is readable. */
  readonly id?: string;
  readonly source?: string;
  readonly subject?: string;
  /** `what: where: "input"` */
  readonly reason: string;
}

/** The refusal of a request. */
export function refusalOf(
  { id, source, subject }: Pick<ReportedRequest, 'id' | 'source' | 'subject'>,
  reason: string,
): RefusedRequest {
  return { id, source, subject, reason };
}

/** A stored dead letter. */
export interface DeadLetter extends RefusedRequest {
  /** When it was refused, milliseconds since the epoch. */
  readonly at: number;
  /** Name of the token that sent it. */
  readonly client: string;
}

/**
 * The refused requests as records `intake/refused/<time>-<number>`, so that a person sees what a
 * sender does wrong.
 */
export class DeadLetters {
  readonly #ledger: Pick<Ledger, 'records'>;
  #keys: readonly string[] = [];
  #serial = 0;

  constructor(ledger: Pick<Ledger, 'records'>) {
    this.#ledger = ledger;
  }

  /** Reads the keys of earlier processes. */
  async load(): Promise<void> {
    const keys: string[] = [];
    for await (const [key] of this.#ledger.records(LETTERS)) keys.push(key);
    this.#keys = keys;
  }

  /** The records to change for new dead letters. The oldest make room for them. */
  changes(
    refused: readonly RefusedRequest[],
    at: number,
    client: string,
  ): { readonly records: readonly RecordChange[]; readonly written: () => void } {
    if (refused.length === 0) return { records: [], written: () => undefined };
    const added = refused.slice(-MOST_LETTERS).map((one): RecordChange & { value: string } => {
      this.#serial += 1;
      const key = `${LETTERS}${new Date(at).toISOString()}-${String(this.#serial).padStart(9, '0')}`;
      return { key, value: JSON.stringify({ at, client, ...shortened(one) }) };
    });
    const room = MOST_LETTERS - added.length;
    const removed = this.#keys.slice(0, Math.max(0, this.#keys.length - room));
    return {
      records: [...removed.map((key) => ({ key, value: undefined })), ...added],
      written: () => {
        const gone = new Set(removed);
        const kept = this.#keys.filter((key) => !gone.has(key));
        this.#keys = [...kept, ...added.map(({ key }) => key)];
      },
    };
  }

  /** The stored dead letters, oldest first. */
  async *list(): AsyncGenerator<DeadLetter> {
    for await (const [, value] of this.#ledger.records(LETTERS)) {
      yield JSON.parse(value) as DeadLetter;
    }
  }
}

function shortened({ id, source, subject, reason }: RefusedRequest): RefusedRequest {
  const short = (text: string): string => text.slice(0, MOST_CHARACTERS).toWellFormed();
  return {
    ...(id !== undefined && { id: short(id) }),
    ...(source !== undefined && { source: short(source) }),
    ...(subject !== undefined && { subject: short(subject) }),
    reason: short(reason),
  };
}
