import type { Request } from 'express';
import { CauseLog } from '../../telemetry/cause-log.ts';
import type { DestinationDefinition } from '../../destinations/definition.ts';
import { DESTINATIONS } from '../../destinations/registry.ts';
import type { DestinationType } from '../../model/destination-type.ts';
import type { InboxOutcome } from '../../billing/enforcement/inbox.ts';
import { clientKey } from '../access.ts';
import { ofOperator } from '../fleet/dispatch.ts';
import {
  ClientCounts,
  type ConcurrencyLimit,
  FAILURES_WINDOW_MS,
  MOST_FAILED_SIGNATURES,
} from '../limits.ts';
import { badRequest, Problem, tryLater } from '../problem.ts';
import { pathParameter, readQuery } from '../query.ts';
import { readBody } from '../request-body.ts';
import type { Route, RouteContext } from '../route.ts';

/** A billing system that sends alerts. */
interface AlertingSystem {
  readonly type: DestinationType;
  /** The variable that holds its secret, with its other name: `A_SECRET (or B_SECRET)`. */
  readonly secretVariable: string;
}

/** The systems by every spelling of their names, those with a neutral name first. */
const SYSTEMS: ReadonlyMap<string, AlertingSystem> = new Map(
  alertingDefinitions().flatMap(({ type, spellings, variables, alerts }) => {
    const name = alerts?.secretVariable ?? '';
    const aliases = (variables[name]?.aliases ?? []).map((alias) => ` (or ${alias})`);
    const system: AlertingSystem = { type, secretVariable: name + aliases.join('') };
    return spellings.map((spelling) => [spelling, system] as const);
  }),
);

const MAX_BODY_BYTES = 1024 * 1024;
/** Shorter than billing systems wait for an answer. */
const PATIENCE_MS = 8_000;

/**
 * POST /webhooks/{provider}: alerts of billing systems (docs/how-to/enforcement.md). The signature
 * is the only credential. The answers are those of the earlier release: 2xx only when the effect of
 * the message is durable.
 */
export function webhookRoute(
  { views, clock, logger }: RouteContext,
  memory: ConcurrencyLimit,
): Route {
  const attempts = new ClientCounts(clock, MOST_FAILED_SIGNATURES, FAILURES_WINDOW_MS);
  const log = new CauseLog(logger, clock);
  return {
    method: 'post',
    path: '/webhooks/{provider}',
    access: 'open',
    hub: 'refused',
    summary: 'alerts of billing systems',
    handlers: [
      (request, _response, next) => {
        readQuery(request, []);
        const { type, secretVariable } = systemOf(request);
        if (ofOperator(views.enforcement).isEnabled(type)) return next();
        throw new Problem(404, `not enabled: ${request.path}: set ${secretVariable}`);
      },
      readBody({ maxBytes: MAX_BODY_BYTES, memory, counted: 'received' }),
      async (request, response) => {
        const system = systemOf(request);
        const outcome = await ofOperator(views.enforcement).receive(
          system.type,
          { header: (name) => request.get(name), body: bodyOf(request) },
          AbortSignal.timeout(PATIENCE_MS),
        );
        const problem = problemOf(outcome, system);
        if (problem === undefined) {
          response.json(showOutcome(outcome));
          return;
        }
        if (problem.status !== 503) {
          const from = clientKey(request, response);
          const message = `[enforcement] refused a ${system.type} message: ${problem.message}`;
          log.warn(`${system.type} ${problem.message}`, message);
          if (!attempts.allow(from)) throw tryLater(429, 60, 'too many failed attempts: wait');
        }
        throw problem;
      },
    ],
  };
}

function alertingDefinitions(): readonly DestinationDefinition[] {
  return DESTINATIONS.filter(({ alerts }) => alerts !== undefined).toSorted((a, b) =>
    a.spellings[0] < b.spellings[0] ? -1 : 1,
  );
}

function systemOf(request: Request): AlertingSystem {
  const name = pathParameter(request, 'provider');
  const system = SYSTEMS.get(name);
  if (system !== undefined) return system;
  const names = [...SYSTEMS.keys()].join(', ');
  throw new Problem(404, `no such billing system: path: use one of ${names}`);
}

function bodyOf(request: Request): Uint8Array {
  return Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
}

function showOutcome(outcome: InboxOutcome) {
  if (outcome.kind === 'applied') {
    const { tenants, state } = outcome;
    return { applied: true, tenant: tenants[0], state, tenants };
  }
  return { applied: false, reason: 'reason' in outcome ? outcome.reason : '' };
}

/** The error of an outcome; undefined for outcomes that are answered with 200. */
function problemOf(
  outcome: InboxOutcome,
  { type, secretVariable }: AlertingSystem,
): Problem | undefined {
  const isTaken = ['applied', 'reported', 'ignored'].includes(outcome.kind);
  if (isTaken) return undefined;
  if (outcome.kind === 'malformed') {
    return badRequest(`${outcome.reason}: send it as ${type} does`);
  }
  if (outcome.kind === 'unavailable') {
    return tryLater(503, 5, `not recorded: ${outcome.reason}: send it again`);
  }
  const fix = `check the secret in ${secretVariable} and both clocks`;
  return new Problem(401, `signature not accepted: ${type}: ${fix}`);
}
