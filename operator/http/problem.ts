import type { ErrorRequestHandler } from 'express';
import { LedgerReadError, type WriteOutcome } from '../ledger/ledger.ts';
import { CauseLog } from '../telemetry/cause-log.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';

/**
 * An error with its HTTP status. The client reads `message` under `error`: `what: where: how to fix
 * it`, never with a secret.
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

/** The client must change its request. */
export function badRequest(message: string): Problem {
  return new Problem(400, message);
}

/** Try again after a number of seconds: 503, or 429 when the client itself is the cause. */
export function tryLater(status: 429 | 503, seconds: number, message: string): Problem {
  return new Problem(status, message, { 'Retry-After': String(seconds) });
}

/** Throws 503 when the ledger did not take a write. `effect` says what the client must know. */
export function refuseUnwritten(outcome: WriteOutcome, effect: string): void {
  if (outcome.kind !== 'failed') return;
  throw tryLater(503, 5, `ledger write failed: ${outcome.message}: ${effect}`);
}

/**
 * Answers any error as `{"error": "what: where: how to fix it"}`. Logs only the operator's own
 * faults, once a minute for each route.
 */
export function createErrorHandler(logger: Logger, clock: Clock): ErrorRequestHandler {
  const log = new CauseLog(logger, clock);
  // Express recognises an error handler by its four parameters.
  return (error: unknown, request, response, _next) => {
    const problem = toProblem(error);
    if (response.destroyed || response.headersSent) {
      if (!response.writableFinished) response.destroy();
      return;
    }
    if (problem.status === 500 || error instanceof LedgerReadError) {
      const { method } = request;
      // A secret in the path must not reach the log (docs/how-to/ai-gateways.md).
      const path = request.path.replace(/^\/ingest\/[^/]*/, '/ingest/{secret}');
      const route = String(response.locals['route'] ?? 'unmatched');
      log.error(`${method} ${route}`, '[http] request failed', { method, path, error });
    }
    response.removeHeader('Content-Disposition');
    response.status(problem.status).set(problem.headers).type('json');
    response.send(JSON.stringify({ error: problem.message }));
  };
}

function toProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof LedgerReadError) {
    return tryLater(503, 5, `ledger read failed: ${error.message}: see the log of the operator`);
  }
  const status: unknown = error instanceof Error && 'status' in error ? error.status : undefined;
  if (status === 400) return new Problem(400, 'bad request: path: check its percent-encoding');
  return new Problem(500, 'internal error: see the log of the operator: try again later');
}
