import { ofOperator } from '../fleet/dispatch.ts';
import { isoTime } from '../presentation.ts';
import { readCount, readQuery } from '../query.ts';
import type { Route, RouteContext } from '../route.ts';

const MOST_LISTED = 1000;

/** GET /api/v1/intake: what gateways have reported, and the events of theirs that cannot count. */
export function intakeRoute({ views }: RouteContext): Route {
  return {
    method: 'get',
    path: '/api/v1/intake',
    access: 'read',
    hub: 'refused',
    summary: 'usage that AI gateways report, and their dead letters',
    handlers: [
      async (request, response) => {
        const bounds = { min: 1, max: MOST_LISTED, fallback: 100 };
        const limit = readCount(readQuery(request, ['limit']), 'limit', bounds);
        const intake = ofOperator(views.intake);
        const { entries, openSums, closedUntil } = intake.stats();
        const letters = await Array.fromAsync(intake.deadLetters());
        response.json({
          ready: intake.isReady,
          remembered: entries,
          open_sums: openSums,
          closed_until: closedUntil === 0 ? undefined : isoTime(closedUntil),
          total: letters.length,
          dead_letters: letters
            .slice(-limit)
            .toReversed()
            .map(({ at, reason, ...letter }) => ({ at: isoTime(at), ...letter, error: reason })),
        });
      },
    ],
  };
}
