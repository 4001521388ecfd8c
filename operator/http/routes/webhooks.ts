import type { Request } from 'express';
import { createCauseLog } from '../../telemetry/cause-log.ts';
import type { Provider } from '../../enforcement/alerts/alert.ts';
import type { InboxOutcome } from '../../enforcement/inbox.ts';
import { clientKey } from '../access.ts';
import { createFailedAttempts } from '../failed-attempts.ts';
import type { Gate } from '../gate.ts';
import { pathParameter } from '../presentation.ts';
import { badRequest, Problem, tryLater } from '../problem.ts';
import { readQuery } from '../query.ts';
import { readBody } from '../request-body.ts';
import type { Route, RouteContext } from '../route.ts';

/** Both spellings of each billing system (design 1). */
const PROVIDERS: ReadonlyMap<string, Provider> = new Map([
  ['billing_a', 'stripe'],
  ['stripe', 'stripe'],
  ['billing_b', 'metronome'],
  ['metronome', 'metronome'],
  ['billing_c', 'lago'],
  ['lago', 'lago'],
]);

const SECRETS: Readonly<Record<Provider, string>> = {
  stripe: 'BILLING_A_WEBHOOK_SECRET (or STRIPE_WEBHOOK_SECRET)',
  metronome: 'BILLING_B_WEBHOOK_SECRET (or METRONOME_WEBHOOK_SECRET)',
  lago: 'BILLING_C_WEBHOOK_SECRET (or LAGO_WEBHOOK_SECRET)',
};

const MAX_BODY_BYTES = 1024 * 1024;
/** Below what billing systems wait for an answer. */
const PATIENCE_MS = 8_000;

/**
 * POST /webhooks/{provider}: alerts of billing systems (spec 4). The signature is the only credential.
 * Answers of the earlier release; 2xx only when what follows from the message is durable.
 */
export function webhookRoute({ views, clock, logger }: RouteContext, memory: Gate): Route {
  const attempts = createFailedAttempts(clock);
  const log = createCauseLog(logger, clock);
  return {
    method: 'post',
    path: '/webhooks/{provider}',
    access: 'open',
    summary: 'alerts of billing systems',
    handlers: [
      (request, _response, next) => {
        readQuery(request, []);
        const provider = providerOf(request);
        if (views.enforcement.isEnabled(provider)) return next();
        throw new Problem(404, `not enabled: ${request.path}: set ${SECRETS[provider]}`);
      },
      readBody({ maxBytes: MAX_BODY_BYTES, memory }),
      async (request, response) => {
        const provider = providerOf(request);
        const outcome = await views.enforcement.receive(
          provider,
          { header: (name) => request.get(name), body: bodyOf(request) },
          AbortSignal.timeout(PATIENCE_MS),
        );
        const problem = problemOf(outcome, provider);
        if (problem === undefined) {
          response.json(showOutcome(outcome));
          return;
        }
        if (problem.status !== 503) {
          const from = clientKey(request, response);
          const message = `[enforcement] refused a ${provider} message: ${problem.message}`;
          log.warn(`${provider} ${problem.message}`, message);
          if (!attempts.allow(from)) throw tryLater(429, 60, 'too many failed attempts: wait');
        }
        throw problem;
      },
    ],
  };
}

function providerOf(request: Request): Provider {
  const name = pathParameter(request, 'provider');
  const provider = PROVIDERS.get(name);
  if (provider !== undefined) return provider;
  const names = [...PROVIDERS.keys()].join(', ');
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

/** Undefined for what is answered with 200. */
function problemOf(outcome: InboxOutcome, provider: Provider): Problem | undefined {
  if (outcome.kind === 'applied' || outcome.kind === 'ignored') return undefined;
  if (outcome.kind === 'malformed') {
    return badRequest(`${outcome.reason}: send it as ${provider} does`);
  }
  if (outcome.kind === 'unavailable') {
    return tryLater(503, 5, `not recorded: ${outcome.reason}: send it again`);
  }
  const mend = `check the secret in ${SECRETS[provider]} and both clocks`;
  return new Problem(401, `signature not accepted: ${provider}: ${mend}`);
}
