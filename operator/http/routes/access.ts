import type { Request, Response } from 'express';
import { exactText, unitText } from '../../billing/budgets/unit.ts';
import type { BudgetLeft } from '../../billing/budgets/budget-left.ts';
import type { AccessAnswer } from '../../intake/access-check.ts';
import { TOKENS } from '../../intake/mapping.ts';
import { CompiledRules } from '../../intake/rules.ts';
import { quote } from '../../model/validate-event.ts';
import { ingestScope } from '../access.ts';
import { ofOperator } from '../fleet/dispatch.ts';
import type { IngestRate } from '../limits.ts';
import { isoTime } from '../presentation.ts';
import { badRequest, Problem, tryLater } from '../problem.ts';
import { pathParameter, readQuery } from '../query.ts';
import type { Route, RouteContext } from '../route.ts';
import type { Views } from '../views.ts';

/**
 * Whether a tenant may send a request: the question of a gateway before each one
 * (docs/how-to/ai-gateways.md#access). A question that is understood gets 200, because gateways
 * admit a request after any other answer.
 */
export function accessRoutes({ views, clock }: RouteContext, rate: IngestRate): readonly Route[] {
  const answer = (request: Request, response: Response, question: AccessQuestion): void => {
    rate.take(request, response);
    const { tenants } = ingestScope(response);
    if (tenants?.includes(question.tenant) === false) throw beyondScope(question.tenant);
    response.json(showAnswer(checkAccess(views, question), clock.now()));
  };
  return [
    {
      method: 'get',
      path: '/api/v1/tenants/{tenant}/access',
      access: 'access',
      hub: 'refused',
      summary: 'whether a tenant may send a request now',
      handlers: [
        (request, response) => {
          const metric = readQuery(request, ['metric', 'model']).get('metric') ?? TOKENS;
          if (views.catalog().find(metric) === undefined) {
            throw badRequest(`unknown metric: metric: ${quote(metric)}: see /api/v1/catalog`);
          }
          answer(request, response, { tenant: pathParameter(request, 'tenant'), metric });
        },
      ],
    },
    {
      method: 'get',
      path: '/api/v1/customers/{id}/entitlements/{feature}/value',
      access: 'access',
      hub: 'refused',
      summary: 'the same, as OpenMeter answers it',
      handlers: [
        (request, response) => {
          readQuery(request, ['model']);
          const [caller, feature] = [
            pathParameter(request, 'id'),
            pathParameter(request, 'feature'),
          ];
          answer(request, response, questionAbout(views, caller, feature));
        },
      ],
    },
  ];
}

interface AccessQuestion {
  readonly tenant: string;
  readonly metric: string;
}

/** Returns whom and what OpenMeter's names of a customer and a feature stand for. */
export function questionAbout(views: Views, customer: string, feature: string): AccessQuestion {
  // Features such as `inference-tokens` name no metric.
  const metric = views.catalog().find(feature) === undefined ? TOKENS : feature;
  const rules = CompiledRules.of(views.settings().ingest);
  return { tenant: rules.tenantFor(customer, metric), metric };
}

/** Throws 503 while the budgets are not known. */
export function checkAccess(views: Views, { tenant, metric }: AccessQuestion): AccessAnswer {
  const found = ofOperator(views.access).of(tenant, metric);
  if (found.kind === 'unknown') throw notKnown();
  return found;
}

function beyondScope(tenant: string): Problem {
  const where = `tenant: ${quote(tenant)}`;
  const fix = 'use one whose scope in INGEST_TOKEN has it in tenants=';
  return new Problem(403, `token not allowed here: ${where}: ${fix}`);
}

function notKnown(): Problem {
  const what = 'the budgets of the last second are not known';
  return tryLater(503, 1, `${what}: apply the policy of the gateway, or try again in a second`);
}

/** The field names of OpenMeter's entitlement value, and more of our own. */
function showAnswer({ hasAccess, reason, state, left, staleMs }: AccessAnswer, now: number) {
  return {
    hasAccess,
    reason,
    ...(left && showLeft(left)),
    state,
    as_of: isoTime(now - staleMs),
    stale_seconds: Math.ceil(staleMs) / 1000,
  };
}

/** Amounts as JSON numbers: a gateway decides by them, nobody bills by them. */
function showLeft({ budget, limit, used }: BudgetLeft) {
  const number = (amount: bigint): number => Number(exactText(budget.counts, amount));
  return {
    balance: number(limit > used ? limit - used : 0n),
    usage: number(used),
    overage: number(used > limit ? used - limit : 0n),
    totalAvailableGrantAmount: number(limit),
    unit: unitText(budget),
  };
}
