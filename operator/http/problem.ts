/**
 * A refusal with its status. `message` is what the client reads under `error`:
 * `what: where: how to mend it`, never with a secret.
 */
export class Problem extends Error {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.name = 'Problem';
    this.status = status;
    this.headers = headers;
  }
}

/** The client did something wrong and must change the request. */
export function badRequest(message: string): Problem {
  return new Problem(400, message);
}

/** Try again after a number of seconds: 503, or 429 when the client itself is the cause. */
export function tryLater(status: 429 | 503, seconds: number, message: string): Problem {
  return new Problem(status, message, { 'Retry-After': String(seconds) });
}
