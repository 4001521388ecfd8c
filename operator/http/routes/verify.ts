import type { ConcurrencyLimit } from '../limits.ts';
import { readQuery } from '../query.ts';
import type { Route, RouteContext } from '../route.ts';
import { goneSignal } from '../stream-lines.ts';

/**
 * GET /api/v1/ledger/verify: reads every stored byte. 200 when the ledger is intact, 409 with the
 * first problems otherwise.
 */
export function verifyRoute(
  { ledger, logger }: RouteContext,
  verifications: ConcurrencyLimit,
): Route {
  return {
    method: 'get',
    path: '/api/v1/ledger/verify',
    access: 'read',
    summary: 'check every stored byte of the ledger',
    handlers: [
      async (request, response) => {
        readQuery(request, []);
        verifications.hold(response);
        const report = await ledger.verify(goneSignal(response));
        if (!report.ok) logger.error('[http] the ledger is damaged', { errors: report.errors });
        response.status(report.ok ? 200 : 409).json({
          ok: report.ok,
          records: report.records,
          segments: report.segments,
          first_seq: report.firstSequence,
          last_seq: report.lastSequence,
          head: report.chain,
          errors: report.errors,
        });
      },
    ],
  };
}
