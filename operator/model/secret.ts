import { inspect } from 'node:util';

/**
 * A credential. It shows itself as `***` wherever it could leak (string, JSON, inspection);
 * only {@link Secret.reveal} gives the text, and only code that sends or checks it calls that.
 */
export class Secret {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  reveal(): string {
    return this.#text;
  }

  /** Whether both hold the same text; for noticing a change, not for checking a caller's token. */
  equals(other: Secret): boolean {
    return this.#text === other.#text;
  }

  toString(): string {
    return '***';
  }

  toJSON(): string {
    return '***';
  }

  [inspect.custom](): string {
    return '***';
  }
}
