import type { Request } from 'express';
import { Counter } from 'prom-client';
import type { LedgerFailure } from '../../ledger/ledger.ts';
import { createLabelLimit } from '../../telemetry/registry.ts';
import { TimeSlice } from '../../telemetry/time-slice.ts';
import { quote } from '../../model/validate-event.ts';
import { ingestScope } from '../access.ts';
import { ofOperator } from '../fleet/dispatch.ts';
import type { ConcurrencyLimit } from '../limits.ts';
import { type IngestAnswer, ingestEvents } from '../ingest/ingest-events.ts';
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
const MAX_CLIENT_SERIES = 200;

/** POST /api/v1/events: usage that others have measured. */
export function ingestRoute(context: RouteContext, memory: ConcurrencyLimit): Route {
  const { views, ledger, clock } = context;
  const meteredHere = createMeteredHere(
    views.discovery,
    clock,
    () => views.settings().metering.maxBackfillMs,
  );
  const count = createIngestCounter(context);
  const slice = new TimeSlice(clock);
  return {
    method: 'post',
    path: '/api/v1/events',
    access: 'ingest',
    hub: 'refused',
    summary: 'push usage events',
    handlers: [
      (request, _response, next) => {
        readQuery(request, []);
        refuseWhenFull(context);
        readClient(request);
        next();
      },
      readBody({ maxBytes: MAX_BODY_BYTES, memory }),
      async (request, response) => {
        const settings = views.settings();
        const client = readClient(request);
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
            scope: ingestScope(response),
            slice,
          },
          ofOperator(views.held),
        );
        if (outcome.kind === 'not-known-yet') throw notKnownYet();
        if (outcome.kind === 'out-of-scope') throw new Problem(403, outcome.problem);
        if (outcome.kind === 'too-much-held') throw tooMuchHeld();
        if (outcome.kind === 'failed') throw ledgerProblem(outcome);
        count(client, outcome.answer);
        const anyValid = outcome.answer.ids.length > 0;
        response.status(anyValid ? 200 : 400).json(outcome.answer);
      },
    ],
  };
}

function refuseWhenFull({ ledger, stopping }: RouteContext): void {
  if (stopping()) throw tryLater(503, 5, 'stopping: ingest: try again when the operator is back');
  const { level } = ledger.stats().disk;
  if (level !== 'ingest-refused' && level !== 'collector-paused') return;
  throw tryLater(503, 60, 'no room: ledger volume: enlarge it or let destinations catch up');
}

function readClient(request: Request): string {
  const name = request.get(CLIENT_HEADER) ?? DEFAULT_CLIENT;
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

function createIngestCounter({ metrics }: RouteContext): (name: string, a: IngestAnswer) => void {
  const counter = new Counter({
    name: 'meterfeed_ingested_events_total',
    help: 'Events pushed in through POST /api/v1/events, by client and outcome',
    labelNames: ['client', 'outcome'],
    registers: [metrics],
  });
  const limit = createLabelLimit(MAX_CLIENT_SERIES);
  return (name, { accepted, duplicates, rejected }) => {
    const client = limit(name);
    counter.inc({ client, outcome: 'accepted' }, accepted);
    counter.inc({ client, outcome: 'duplicate' }, duplicates);
    counter.inc({ client, outcome: 'rejected' }, rejected.length);
  };
}
