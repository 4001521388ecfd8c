import { inspect } from 'node:util';

/**
 * A credential. It appears as `***` wherever it could leak (string, JSON, inspection). Only {@link
 * Secret.reveal} returns the text, and only code that sends or checks it calls that.
 */
export class Secret {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  reveal(): string {
    return this.#text;
  }

  /** Whether both have the same text. Use it to notice a change, not to check a caller's token. */
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
