import { createHash } from 'node:crypto';
import { statementLines } from '../../billing/statement/statement.ts';
import { eventsIn } from '../../billing/usage/events-in.ts';
import { pricesInForce } from '../../billing/usage/prices-in-force.ts';
import { quote } from '../../model/quote.ts';
import type { TimeRange } from '../../model/window.ts';
import type { Scans } from '../limits.ts';
import { isoTime } from '../presentation.ts';
import { Problem } from '../problem.ts';
import { pathParameter, readChoice, readQuery } from '../query.ts';
import type { Route, RouteContext } from '../route.ts';
import { goneSignal, streamLines } from '../stream-lines.ts';
import { pricesUnread } from './costs.ts';
import { gapsIn, knownGaps } from './gaps.ts';
import { readMonth } from './months.ts';
import { measuredSince } from './usage.ts';

/**
 * GET /api/v1/tenants/{tenant}/statement: a month of a tenant in a file that anybody can check
 * (docs/how-to/check-a-bill.md), and the public keys of its signature.
 */
export function statementRoutes(context: RouteContext, scans: Scans): readonly Route[] {
  const { clock, portal, views } = context;
  return [
    {
      method: 'get',
      path: '/.well-known/meterfeed-statement-keys.json',
      access: 'open',
      hub: 'refused',
      summary: 'the public keys of signed statements',
      handlers: [
        (request, response) => {
          readQuery(request, []);
          response.json(portal.statementKeys());
        },
      ],
    },
    {
      method: 'get',
      path: '/api/v1/tenants/{tenant}/statement',
      access: 'read',
      hub: 'refused',
      tenantScope: 'named',
      summary: 'a month of a tenant in a signed file that anybody can check',
      handlers: [
        async (request, response) => {
          const query = readQuery(request, ['month', 'evidence']);
          const tenant = pathParameter(request, 'tenant');
          const name = query.get('month') ?? '';
          const hasEvidence = readChoice(query, 'evidence', ['false', 'true']) === 'true';
          const [year, index] = readMonth(name, clock.now());
          const month = { from: Date.UTC(year, index), to: Date.UTC(year, index + 1) };
          refuseWithoutKey(context);
          if (!views.pricesKnown()) throw pricesUnread();
          await refuseIncomplete(context, name, month);
          scans.hold(response);
          response.attachment(`statement_${tenant.replaceAll(/[^\w.-]/g, '_')}_${name}.ndjson`);
          response.type('application/x-ndjson');
          await streamLines(
            response,
            signedLines(context, { tenant, name, month, hasEvidence }, goneSignal(response)),
          );
        },
      ],
    },
  ];
}

function refuseWithoutKey({ portal }: RouteContext): void {
  if (portal.statementKeys().keys.length > 0) return;
  throw new Problem(
    404,
    'there are no statements: no Ed25519 key: PORTAL_KEYS_FILE: add one (docs/how-to/check-a-bill.md#keys)',
  );
}

/** Refuses a month of which events were deleted, or that ended before anything was measured. */
async function refuseIncomplete(
  context: RouteContext,
  name: string,
  month: TimeRange,
): Promise<void> {
  const { horizon } = context.ledger.stats();
  const what = `not wholly in the ledger: month: ${quote(name)}`;
  if (horizon > month.from) {
    const deleted = `windows up to ${isoTime(horizon)} may be deleted`;
    throw new Problem(
      409,
      `${what}: ${deleted}: set RETENTION or MeteringPolicy spec.retention to 62 days or more for later months`,
    );
  }
  const since = await measuredSince(context);
  if (since !== undefined && since >= month.to) {
    throw new Problem(409, `${what}: measuring began at ${isoTime(since)}: take a later month`);
  }
}

interface Requested {
  readonly tenant: string;
  /** The month as `YYYY-MM`. */
  readonly name: string;
  readonly month: TimeRange;
  readonly hasEvidence: boolean;
}

/** The lines of a statement. The last one signs the hash of those before. */
async function* signedLines(
  context: RouteContext,
  { tenant, name, month, hasEvidence }: Requested,
  signal: AbortSignal,
): AsyncGenerator<string> {
  const { ledger, views, clock, portal } = context;
  const { ledgerId, sequence, chain } = ledger.stats();
  const settings = views.settings();
  const catalog = views.catalog();
  const requested = { range: month, tenant, isConfined: true };
  const { open, ended } = gapsIn(knownGaps(context), requested);
  const lines = statementLines(
    {
      ledger,
      tenant,
      month,
      events: eventsIn(ledger, context.totals(), { range: month, tenant, signal }),
      head: sequence,
      hasEvidence,
      prices: {
        books: settings.pricing.books,
        pricesOf: await pricesInForce(ledger, settings, views.discovery.tenants()),
        isInformational: (metric) => catalog.find(metric)?.informational === true,
      },
      signal,
    },
    {
      about: {
        month: name,
        ledger_id: ledgerId,
        made_at: isoTime(clock.now()),
        over: month.to <= clock.now(),
        measured_since: isoTime(await measuredSince(context)),
      },
      ending: { gaps: [...open, ...ended] },
    },
  );
  const digest = createHash('sha256');
  for await (const line of lines) {
    digest.update(line);
    yield line;
  }
  const signature = await portal.signStatement({
    tenant,
    month: name,
    ledger_id: ledgerId,
    head: { sequence, chain },
    sha256: digest.digest('hex'),
  });
  // The key was there when the request came.
  if (signature === undefined) throw new Error('statement: the key is gone');
  yield `${JSON.stringify({ signature })}\n`;
}
