import type { Request, Response } from 'express';
import { Counter } from 'prom-client';
import type { LedgerFailure } from '../../ledger/ledger.ts';
import { eventMode } from '../../intake/cloud-events.ts';
import { readReported } from '../../intake/read-reported.ts';
import { CompiledRules } from '../../intake/rules.ts';
import { createLabelLimit, MOST_CLIENTS } from '../../telemetry/registry.ts';
import { TimeSlice } from '../../telemetry/time-slice.ts';
import { quote } from '../../model/validate-event.ts';
import { ingestScope } from '../access.ts';
import { ofOperator } from '../fleet/dispatch.ts';
import { type ConcurrencyLimit, IngestRate } from '../limits.ts';
import { type IntakeAnswer, takeGatewayEvents } from '../ingest/gateway-events.ts';
import { ingestEvents } from '../ingest/ingest-events.ts';
import { createMeteredHere } from '../ingest/metered-here.ts';
import { badRequest, Problem, tryLater } from '../problem.ts';
import { readQuery } from '../query.ts';
import { parseBody, readBody, refuseOthers } from '../request-body.ts';
import type { Route, RouteContext } from '../route.ts';

/** Bounds of one request (docs/reference/events.md#pushed-events). */
const MAX_BODY_BYTES = 10 * 1024 * 1024;
const MAX_EVENTS = 5000;

const CLIENT_HEADER = 'X-Meterfeed-Client';
const CLIENT_NAME = /^[a-z0-9._-]{1,64}$/;
const DEFAULT_CLIENT = 'api';
/** Gateways cannot send a header of ours. */
const DEFAULT_GATEWAY = 'gateway';

/**
 * POST /api/v1/events: usage that others have measured, as usage events or as the CloudEvents of
 * gateways.
 */
export function ingestRoute(context: RouteContext, memory: ConcurrencyLimit): Route {
  const { views, clock, limits } = context;
  const rates = {
    requests: new IngestRate('requests', limits.requestsPerSecond, clock),
    events: new IngestRate('events', limits.eventsPerSecond, clock),
  };
  const count = createIngestCounter(context);
  const takeUsageEvents = usageEventsHandler(context, count);
  return {
    method: 'post',
    path: '/api/v1/events',
    access: 'ingest',
    hub: 'refused',
    summary: 'push usage events, or the CloudEvents of gateways',
    handlers: [
      (request, response, next) => {
        readQuery(request, []);
        refuseWhenFull(context);
        readClient(request, DEFAULT_CLIENT);
        rates.events.take(request, response);
        next();
      },
      readBody({
        maxBytes: MAX_BODY_BYTES,
        memory,
        others: (headers) => eventMode(headers) !== undefined,
      }),
      async (request, response) => {
        const reported = readReported(
          bodyOf(request),
          request.headers,
          views.settings().ingest,
          clock.now(),
        );
        if (reported.kind === 'unreadable') throw new Problem(reported.status, reported.problem);
        if (reported.kind === 'usage-events') {
          rates.requests.take(request, response);
          return takeUsageEvents(request, response);
        }
        const intake = ofOperator(views.intake);
        if (!intake.isReady) throw notReady();
        const { requests, refused, ignored } = reported;
        const more = requests.length + refused.length + ignored - 1;
        if (more > 0) rates.events.take(request, response, more);
        const client = readClient(request, DEFAULT_GATEWAY);
        const outcome = await takeGatewayEvents(
          reported,
          { client, scope: ingestScope(response) },
          intake,
        );
        if (outcome.kind !== 'answered') throw ledgerProblem(outcome);
        const { answer } = outcome;
        count(client, {
          accepted: answer.accepted,
          duplicate: answer.repeated,
          rejected: answer.refused.length,
          ignored,
        });
        if (answer.refused.length === 0) response.status(204).end();
        else response.json(showIntakeAnswer(answer));
      },
    ],
  };
}

/** Returns the handler of bodies of our own usage events. */
function usageEventsHandler(
  context: RouteContext,
  count: CountEvents,
): (request: Request, response: Response) => Promise<void> {
  const { views, ledger, clock } = context;
  const meteredHere = createMeteredHere(
    views.discovery,
    clock,
    () => views.settings().metering.maxBackfillMs,
  );
  const slice = new TimeSlice(clock);
  return async (request, response) => {
    const settings = views.settings();
    const client = readClient(request, DEFAULT_CLIENT);
    const inputs = readInputs(parseBody(request.body));
    const outcome = await ingestEvents(
      inputs,
      {
        client,
        now: clock.now(),
        region: settings.identity.region,
        retentionMs: settings.ledger.retentionMs,
        horizon: ledger.stats().horizon,
        catalog: views.catalog(),
        meteredHere: meteredHere(),
        summed: CompiledRules.of(settings.ingest).metrics,
        scope: ingestScope(response),
        slice,
      },
      ofOperator(views.held),
    );
    if (outcome.kind === 'not-known-yet') throw notKnownYet();
    if (outcome.kind === 'out-of-scope') throw new Problem(403, outcome.problem);
    if (outcome.kind === 'too-much-held') throw tooMuchHeld();
    if (outcome.kind === 'failed') throw ledgerProblem(outcome);
    const { accepted, duplicates, rejected, ids } = outcome.answer;
    count(client, { accepted, duplicate: duplicates, rejected: rejected.length });
    response.status(ids.length > 0 ? 200 : 400).json(outcome.answer);
  };
}

/** Without a body the bytes are none. */
function bodyOf(request: Request): Buffer {
  return Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
}

function showIntakeAnswer({ refused, ...counts }: IntakeAnswer) {
  return {
    ...counts,
    refused: refused.map(({ reason, ...event }) => ({ ...event, error: reason })),
  };
}

function notReady(): Problem {
  const what = 'the rules of the MeteringPolicy or the requests of the last hours are not read yet';
  return tryLater(503, 5, `${what}: nothing was recorded: try again in a few seconds`);
}

function refuseWhenFull({ ledger, stopping }: RouteContext): void {
  if (stopping()) throw tryLater(503, 5, 'stopping: ingest: try again when the operator is back');
  const { level } = ledger.stats().disk;
  if (level !== 'ingest-refused' && level !== 'collector-paused') return;
  throw tryLater(503, 60, 'no room: ledger volume: enlarge it or let destinations catch up');
}

function readClient(request: Request, otherwise: string): string {
  const name = request.get(CLIENT_HEADER) ?? otherwise;
  if (CLIENT_NAME.test(name)) return name;
  throw badRequest(
    `bad client name: ${CLIENT_HEADER}: ${quote(name)}: use 1 to 64 of a-z, 0-9, ".", "_", "-"`,
  );
}

/** One event, an array of events, or `{events: [...]}`. */
function readInputs(body: unknown): readonly unknown[] {
  const inputs = Array.isArray(body) ? body : eventsOf(body);
  if (inputs.length === 0) throw badRequest('no events: body: send at least one');
  if (inputs.length <= MAX_EVENTS) return inputs;
  throw badRequest(`too many events: body: ${inputs.length}: send at most ${MAX_EVENTS} at a time`);
}

function eventsOf(body: unknown): readonly unknown[] {
  if (typeof body !== 'object' || body === null) {
    throw badRequest(`not an event: body: ${quote(body)}: send an event, an array or {"events"}`);
  }
  if (!('events' in body)) return [body];
  refuseOthers(body, ['events']);
  if (Array.isArray(body.events)) return body.events;
  throw badRequest(`not an array: events: ${quote(body.events)}: send an array of events`);
}

function notKnownYet(): Problem {
  const what =
    'waiting for discovery: it is unknown yet whether the collector measures these metrics';
  return tryLater(503, 5, `${what}: nothing was recorded: try again in a few seconds`);
}

function tooMuchHeld(): Problem {
  const what = 'too much usage of unknown tenants is held: nothing was recorded';
  return tryLater(503, 60, `${what}: release, rename or discard it, see /api/v1/held-tenants`);
}

function ledgerProblem(failure: LedgerFailure): Problem {
  const seconds = failure.cause === 'retryable' ? 1 : 60;
  return tryLater(503, seconds, `ledger write failed: ${failure.message}: nothing was recorded`);
}

type CountEvents = (client: string, outcomes: Readonly<Record<string, number>>) => void;

function createIngestCounter({ metrics }: RouteContext): CountEvents {
  const counter = new Counter({
    name: 'meterfeed_ingested_events_total',
    help: 'Events pushed in through POST /api/v1/events, by client and outcome',
    labelNames: ['client', 'outcome'],
    registers: [metrics],
  });
  const limit = createLabelLimit(MOST_CLIENTS);
  return (name, outcomes) => {
    const client = limit(name);
    for (const [outcome, events] of Object.entries(outcomes)) {
      counter.inc({ client, outcome }, events);
    }
  };
}
