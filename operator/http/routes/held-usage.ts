import type { Request, Response } from 'express';
import type { HeldDecision } from '../../billing/held-usage/held-usage.ts';
import { decimalFromNanos, nanosFromDecimal } from '../../model/decimal.ts';
import { encodeEvent } from '../../model/event.ts';
import { quote } from '../../model/validate-event.ts';
import { ofOperator } from '../fleet/dispatch.ts';
import type { ConcurrencyLimit } from '../limits.ts';
import { isoTime, jsonWithDecimals } from '../presentation.ts';
import { badRequest, Problem, tryLater } from '../problem.ts';
import { pathParameter, readQuery } from '../query.ts';
import { readBody, readFields, refuseBody } from '../request-body.ts';
import type { Route, RouteContext } from '../route.ts';

const PATH = '/api/v1/held-tenants';
const MAX_BODY_BYTES = 4 * 1024;
/** Events listed for one tenant; its sums cover all of them. */
const MOST_SHOWN = 100;
const LONGEST_TENANT = 128;

/**
 * Held usage of unknown tenants, and the operator's decision about it
 * (docs/reference/events.md#unknown-tenants).
 */
export function heldTenantRoutes(
  context: RouteContext,
  memory: ConcurrencyLimit,
): readonly Route[] {
  const held = () => ofOperator(context.views.held);
  const body = readBody({ maxBytes: MAX_BODY_BYTES, memory });
  return [
    {
      method: 'get',
      path: PATH,
      access: 'read',
      hub: 'refused',
      summary: 'held usage of unknown tenants',
      handlers: [
        (request, response) => {
          readQuery(request, []);
          const tenants = held()
            .list()
            .map(({ tenant, events, since }) => {
              return { tenant, events, since: isoTime(since) };
            });
          response.json({ held_tenants: tenants });
        },
      ],
    },
    {
      method: 'get',
      path: `${PATH}/{tenant}`,
      access: 'read',
      hub: 'refused',
      summary: 'held usage of one tenant',
      handlers: [(request, response) => showHeld(context, request, response)],
    },
    decisionRoute(
      context,
      'release',
      'deliver held usage, and all later usage of the tenant',
      (tenant) => held().release(tenant),
    ),
    {
      method: 'post',
      path: `${PATH}/{tenant}/rename`,
      access: 'change',
      hub: 'refused',
      summary: 'deliver held usage under a known tenant',
      handlers: [
        body,
        async (request, response) => {
          readQuery(request, []);
          const tenant = pathParameter(request, 'tenant');
          const to = readTo(request);
          const outcome = await held().rename(tenant, to);
          answer(context, response, { tenant, what: 'renamed', outcome, to });
        },
      ],
    },
    decisionRoute(context, 'discard', 'discard held usage; its ids stay used', (tenant) =>
      held().discard(tenant),
    ),
  ];
}

function decisionRoute(
  context: RouteContext,
  word: 'release' | 'discard',
  summary: string,
  decide: (tenant: string) => Promise<HeldDecision>,
): Route {
  return {
    method: 'post',
    path: `${PATH}/{tenant}/${word}`,
    access: 'change',
    hub: 'refused',
    summary,
    handlers: [
      refuseBody,
      async (request, response) => {
        readQuery(request, []);
        const tenant = pathParameter(request, 'tenant');
        const what = word === 'release' ? 'released' : 'discarded';
        answer(context, response, { tenant, what, outcome: await decide(tenant) });
      },
    ],
  };
}

async function showHeld(
  { views }: RouteContext,
  request: Request,
  response: Response,
): Promise<void> {
  readQuery(request, []);
  const tenant = pathParameter(request, 'tenant');
  const held = ofOperator(views.held);
  const found = held.list().find((one) => one.tenant === tenant);
  if (found === undefined) throw nothingHeld(tenant);
  const sums = new Map<string, { metric: string; unit: string; events: number; nanos: bigint }>();
  const shown: string[] = [];
  for await (const { at, event } of held.eventsOf(tenant)) {
    const { metric, unit, quantity } = event;
    const key = `${metric}\0${unit}`;
    const sum = sums.get(key) ?? { metric, unit, events: 0, nanos: 0n };
    sum.events += 1;
    sum.nanos += nanosFromDecimal(quantity);
    sums.set(key, sum);
    const line = `{"at":${JSON.stringify(isoTime(at))},"event":${encodeEvent(event)}}`;
    if (shown.length < MOST_SHOWN) shown.push(line);
  }
  const rows = [...sums.values()].map(({ nanos, ...sum }) =>
    jsonWithDecimals(sum, { quantity: decimalFromNanos(nanos) }),
  );
  const { events, since } = found;
  const head = JSON.stringify({ tenant, events, since: isoTime(since) }).slice(0, -1);
  response
    .type('application/json')
    .send(`${head},"sums":[${rows.join(',')}],"first_events":[${shown.join(',')}]}\n`);
}

function answer(
  { logger }: RouteContext,
  response: Response,
  decided: {
    readonly tenant: string;
    readonly what: 'released' | 'renamed' | 'discarded';
    readonly outcome: HeldDecision;
    readonly to?: string;
  },
): void {
  const { tenant, what, outcome, to } = decided;
  switch (outcome.kind) {
    case 'decided': {
      const { events, duplicates, conflicts } = outcome;
      const fields = { tenant, to, events, duplicates };
      // What an operator does by hand is always in the log.
      logger.info(`[http] an operator ${what} held usage`, {
        ...fields,
        conflicts: conflicts.length,
      });
      response.json({ ...fields, ...(conflicts.length > 0 && { conflicts }) });
      return;
    }
    case 'none-held':
      throw nothingHeld(tenant);
    case 'refused':
      throw new Problem(409, `${outcome.reason}: nothing was changed`);
    default:
      throw tryLater(503, 5, `ledger write failed: ${outcome.message}: try again`);
  }
}

function nothingHeld(tenant: string): Problem {
  return new Problem(404, `no usage is held of tenant ${quote(tenant)}: see ${PATH}`);
}

function readTo(request: Request): string {
  const { to } = readFields(request.body, ['to'], '{"to": "the tenant it belongs to"}');
  if (typeof to === 'string' && to !== '' && to.length <= LONGEST_TENANT) return to;
  throw badRequest(`not a tenant: to: ${quote(to)}: send {"to": "the tenant it belongs to"}`);
}
