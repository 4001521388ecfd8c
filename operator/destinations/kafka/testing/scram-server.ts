import { createHash, createHmac, pbkdf2Sync } from 'node:crypto';

/**
 * The server side of SCRAM-SHA-256 logins (RFC 5802), one after the other, with one password for
 * all.
 */
export class ScramServer {
  readonly #password: string;
  readonly #iterations: number;
  #clientFirst = '';
  #serverFirst = '';

  constructor(password: string, iterations = 4_096) {
    this.#password = password;
    this.#iterations = iterations;
  }

  /** Answers a message; undefined for a wrong password. */
  answer(message: string): string | undefined {
    const salt = Buffer.from('salt of the test');
    if (message.startsWith('n,,')) {
      this.#clientFirst = message.replace(/^n,,/, '');
      const nonce = /r=(.+)$/.exec(message)?.[1] ?? '';
      this.#serverFirst = `r=${nonce}server,s=${salt.toString('base64')},i=${this.#iterations}`;
      return this.#serverFirst;
    }
    const [, withoutProof = '', proof = ''] = /^(.*),p=(.*)$/.exec(message) ?? [];
    const salted = pbkdf2Sync(this.#password, salt, this.#iterations, 32, 'sha256');
    const signed = [this.#clientFirst, this.#serverFirst, withoutProof].join(',');
    const clientKey = hmac(salted, 'Client Key');
    const stored = createHash('sha256').update(clientKey).digest();
    const expected = hmac(stored, signed).map((byte, index) => byte ^ (clientKey[index] ?? 0));
    if (!Buffer.from(proof, 'base64').equals(expected)) return undefined;
    return `v=${hmac(hmac(salted, 'Server Key'), signed).toString('base64')}`;
  }
}

function hmac(key: Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}
