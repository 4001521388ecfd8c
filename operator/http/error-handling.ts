import type { ErrorRequestHandler } from 'express';
import type { Logger } from '../telemetry/logger.ts';
import { LedgerReadError } from '../ledger/ledger.ts';
import { Problem, tryLater } from './problem.ts';

/** Turns whatever was thrown into `{"error": "what: where: how to mend it"}`; only our own faults are logged. */
export function createErrorHandler(logger: Logger): ErrorRequestHandler {
  // Express tells error handlers from others by their four parameters.
  return (error: unknown, request, response, _next) => {
    const problem = toProblem(error);
    if (response.destroyed || response.headersSent) {
      if (!response.writableFinished) response.destroy();
      return;
    }
    if (problem.status === 500 || error instanceof LedgerReadError) {
      logger.error('[http] request failed', { method: request.method, path: request.path, error });
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
