import type { Request } from 'express';
import { BILLING_STATES, type BillingState } from '../../settings/settings.ts';
import type { TenantBillingState } from '../../billing/enforcement/enforcement.ts';
import { quote } from '../../model/validate-event.ts';
import { ofOperator } from '../fleet/dispatch.ts';
import type { ConcurrencyLimit } from '../limits.ts';
import { isoTime } from '../presentation.ts';
import { badRequest, refuseUnwritten } from '../problem.ts';
import { pathParameter, readQuery } from '../query.ts';
import { readBody, readFields, refuseBody } from '../request-body.ts';
import type { Route, RouteContext } from '../route.ts';
import { requireTenant } from './tenants.ts';

const PATH = '/api/v1/billing-states/{tenant}';
const MAX_BODY_BYTES = 4 * 1024;
const DEFAULT_REASON = 'set by operator';
const LONGEST_REASON = 256;

/**
 * GET /api/v1/billing-states; PUT and DELETE of one tenant's manual state, see
 * docs/how-to/enforcement.md#states.
 */
export function billingStateRoutes(
  context: RouteContext,
  memory: ConcurrencyLimit,
): readonly Route[] {
  const { views, logger } = context;
  const enforcement = () => ofOperator(views.enforcement);
  return [
    {
      method: 'get',
      path: '/api/v1/billing-states',
      access: 'read',
      hub: 'refused',
      summary: 'billing states of tenants, and where they come from',
      handlers: [
        (request, response) => {
          readQuery(request, []);
          const { mode } = views.settings().enforcement;
          response.json({ mode, states: enforcement().states().map(showState) });
        },
      ],
    },
    {
      method: 'put',
      path: PATH,
      access: 'change',
      hub: 'refused',
      summary: 'set the billing state of a tenant by hand, until it is cleared',
      handlers: [
        readBody({ maxBytes: MAX_BODY_BYTES, memory }),
        async (request, response) => {
          readQuery(request, []);
          const tenant = knownTenant(context, request);
          const { state, reason } = readState(request);
          const outcome = await enforcement().setManual(tenant, state, reason);
          refuseUnwritten(outcome, 'nothing was changed');
          logger.info('[http] an operator set a billing state', { tenant, state, reason });
          response.json(showState(views.billingState(tenant)));
        },
      ],
    },
    {
      method: 'delete',
      path: PATH,
      access: 'change',
      hub: 'refused',
      summary: 'clear the billing state set by hand',
      handlers: [
        refuseBody,
        async (request, response) => {
          readQuery(request, []);
          const tenant = knownTenant(context, request);
          refuseUnwritten(await enforcement().clearManual(tenant), 'nothing was changed');
          logger.info('[http] an operator cleared a billing state', { tenant });
          response.json(showState(views.billingState(tenant)));
        },
      ],
    },
  ];
}

/** A billing state with the field names of the earlier release; unset fields are left out. */
function showState(current: TenantBillingState) {
  const { tenant, state, reason, source, eventType, since, manual, sources } = current;
  return {
    tenant,
    state,
    manual,
    ...(source !== '' && { reason, source, event_type: eventType }),
    ...(since > 0 && { since: isoTime(since) }),
    sources: sources.map((entry) => ({
      source: `${entry.provider}:${entry.subject}`,
      state: entry.state,
      reason: entry.reason,
      event_type: entry.eventType,
      at: isoTime(entry.at),
    })),
  };
}

/** The tenant of the path. Throws when it has no tenant cluster here and no recorded state. */
function knownTenant(context: RouteContext, request: Request): string {
  const id = pathParameter(request, 'tenant');
  const isRecorded = ofOperator(context.views.enforcement)
    .states()
    .some(({ tenant }) => tenant === id);
  if (!isRecorded) requireTenant(context, id);
  return id;
}

function readState(request: Request): { readonly state: BillingState; readonly reason: string } {
  const fields = readFields(request.body, ['state', 'reason'], '{"state": "suspended"}');
  const { state: word, reason = DEFAULT_REASON } = fields;
  const state = BILLING_STATES.find((known) => known === word);
  if (state === undefined) {
    const states = BILLING_STATES.join(', ');
    throw badRequest(`not a billing state: state: ${quote(word)}: use one of ${states}`);
  }
  if (typeof reason === 'string' && reason.length <= LONGEST_REASON) return { state, reason };
  throw badRequest(
    `not a reason: reason: ${quote(reason)}: give a text of at most ${LONGEST_REASON} characters`,
  );
}
