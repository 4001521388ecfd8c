import type { Request, RequestHandler } from 'express';
import type { UnknownDestination } from '../../delivery/delivery.ts';
import type { OperationFailed, WantsForce } from '../../delivery/operations/outcomes.ts';
import { quote } from '../../model/validate-event.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { ofOperator } from '../fleet/dispatch.ts';
import type { ConcurrencyLimit } from '../limits.ts';
import { badRequest, Problem } from '../problem.ts';
import { pathParameter, readCount, readQuery } from '../query.ts';
import { readBody, readFields } from '../request-body.ts';
import type { Route, RouteContext } from '../route.ts';
import { sendDeadLetters, showDestinations } from './destination-answer.ts';

const MAX_BODY_BYTES = 256 * 1024;
const MAX_IDS = 5000;
const PAGE = { min: 1, max: 1000, fallback: 100 };

/** The routes of deliveries: their state, and replay, discard and cursor moves for operators. */
export function destinationRoutes(
  context: RouteContext,
  memory: ConcurrencyLimit,
): readonly Route[] {
  const body = { maxBytes: MAX_BODY_BYTES, memory };
  return [
    listRoute(context),
    deadLettersRoute(context),
    replayRoute(context, readBody({ ...body, optional: true })),
    discardRoute(context, readBody(body)),
    cursorRoute(context, readBody(body)),
  ];
}

function listRoute({ views, ledger }: RouteContext): Route {
  return {
    method: 'get',
    path: '/api/v1/destinations',
    access: 'read',
    hub: 'all',
    summary: 'the state of each destination',
    handlers: [
      (request, response) => {
        readQuery(request, []);
        response.json({ destinations: showDestinations(views.destinations, ledger.head()) });
      },
    ],
  };
}

function deadLettersRoute({ views }: RouteContext): Route {
  return {
    method: 'get',
    path: '/api/v1/destinations/{name}/dead-letters',
    access: 'read',
    summary: 'events that a destination will never accept, with reasons',
    handlers: [
      async (request, response) => {
        const query = readQuery(request, ['after', 'limit']);
        const anywhere = { min: 0, max: Number.MAX_SAFE_INTEGER, fallback: 0 };
        const after = readCount(query, 'after', anywhere);
        const name = pathParameter(request, 'name');
        const limit = readCount(query, 'limit', PAGE);
        const page = await ofOperator(views.destinations.operations).deadLetters(
          name,
          after,
          limit,
        );
        if (page === undefined) throw noDestination(name);
        sendDeadLetters(response, name, page.deadLetters, page.next);
      },
    ],
  };
}

function replayRoute({ views, logger }: RouteContext, body: RequestHandler): Route {
  return {
    method: 'post',
    path: '/api/v1/destinations/{name}/dead-letters/replay',
    access: 'change',
    summary: 'send dead letters again',
    handlers: [
      body,
      async (request, response) => {
        readQuery(request, []);
        const name = pathParameter(request, 'name');
        const { ids, force } = readReplay(request);
        const outcome = await ofOperator(views.destinations.operations).replay(name, ids, force);
        if (outcome.kind === 'wants-force') throw wantsForce(name, outcome);
        if (outcome.kind !== 'replayed') throw failure(name, outcome);
        const { replayed, stillRejected, pending, unknown, forced } = outcome;
        const fields = { destination: name, replayed, stillRejected, pending };
        audit(logger, 'replayed dead letters', { ...fields, forced });
        const letters = { replayed, still_rejected: stillRejected, pending };
        response.json({ ...letters, unknown });
      },
    ],
  };
}

function discardRoute({ views, logger }: RouteContext, body: RequestHandler): Route {
  return {
    method: 'post',
    path: '/api/v1/destinations/{name}/dead-letters/discard',
    access: 'change',
    summary: 'discard dead letters for good',
    handlers: [
      body,
      async (request, response) => {
        readQuery(request, []);
        const name = pathParameter(request, 'name');
        const outcome = await ofOperator(views.destinations.operations).discard(
          name,
          readDiscarded(request),
        );
        if (outcome.kind !== 'discarded') throw failure(name, outcome);
        const { discarded, unknown } = outcome;
        audit(logger, 'discarded dead letters', { destination: name, discarded });
        response.json({ discarded, unknown });
      },
    ],
  };
}

function cursorRoute({ views, ledger, logger }: RouteContext, body: RequestHandler): Route {
  return {
    method: 'post',
    path: '/api/v1/destinations/{name}/cursor',
    access: 'change',
    summary: 'move a cursor to a position of the ledger',
    handlers: [
      body,
      async (request, response) => {
        readQuery(request, []);
        const name = pathParameter(request, 'name');
        const { seq, force } = readFields(request.body, ['seq', 'force'], '{"seq": N}');
        const sequence = Math.min(readSequence(seq), ledger.head());
        const outcome = await ofOperator(views.destinations.operations).moveCursor(
          name,
          sequence,
          readForce(force),
        );
        if (outcome.kind === 'wants-force') throw wantsForce(name, outcome);
        if (outcome.kind !== 'moved') throw failure(name, outcome);
        const { warnings, forced } = outcome;
        const fields = { destination: name, sequence: outcome.sequence };
        audit(logger, 'moved a cursor', { ...fields, forced });
        response.json({ destination: name, cursor: outcome.sequence, warnings });
      },
    ],
  };
}

const SELECTION = '{"ids": [...]} or {"all": true}';

/** The dead letters to send again: all of them, without force, when there is no body. */
function readReplay({ body }: Request): {
  readonly ids: readonly string[] | undefined;
  readonly force: boolean;
} {
  if (body === undefined) return { ids: undefined, force: false };
  const { force, ...selection } = readFields(body, ['ids', 'all', 'force'], SELECTION);
  return { ids: readIds(selection), force: readForce(force) };
}

function readDiscarded({ body }: Request): readonly string[] | undefined {
  return readIds(readFields(body, ['ids', 'all'], SELECTION));
}

/** `{"all": true}` means all (undefined), `{"ids": [...]}` some. */
function readIds(selection: {
  readonly ids?: unknown;
  readonly all?: unknown;
}): readonly string[] | undefined {
  const { ids, all } = selection;
  if (ids === undefined && all === true) return undefined;
  if (all === undefined && Array.isArray(ids) && ids.length > 0 && ids.length <= MAX_IDS) {
    if (ids.every((id) => typeof id === 'string')) return ids;
  }
  throw badRequest(
    `which dead letters: body: ${quote(selection)}: send {"ids": [1 to ${MAX_IDS} event ids]} or {"all": true}`,
  );
}

function readSequence(sequence: unknown): number {
  if (typeof sequence === 'number' && Number.isSafeInteger(sequence) && sequence >= 0) {
    return sequence;
  }
  throw badRequest(`not a whole number of at least 0: seq: ${quote(sequence)}: send {"seq": N}`);
}

function readForce(force: unknown = false): boolean {
  if (typeof force === 'boolean') return force;
  throw badRequest(`not true or false: force: ${quote(force)}: leave it out, or send true`);
}

function wantsForce(name: string, { reason }: WantsForce): Problem {
  return new Problem(
    409,
    `${reason}: destination ${quote(name)}: nothing was changed: send "force": true to do it anyway`,
  );
}

/**
 * The error of a failed operation, caused by this operator. A destination's refusal of an event is
 * the outcome of that event.
 */
function failure(name: string, outcome: UnknownDestination | OperationFailed): Problem {
  if (outcome.kind === 'unknown-destination') return noDestination(name);
  return new Problem(409, `${outcome.reason}: destination ${quote(name)}: nothing was changed`);
}

function noDestination(name: string): Problem {
  return new Problem(404, `no destination ${quote(name)}: see /api/v1/destinations`);
}

/** What an operator does by hand is always in the log. */
function audit(logger: Logger, what: string, fields: Readonly<Record<string, unknown>>): void {
  logger.info(`[http] an operator ${what}`, fields);
}
