import { type Page, sendAsset } from '../dashboard/dashboard.ts';
import { ConcurrencyLimit, IngestRate, Scans } from '../limits.ts';
import { readQuery } from '../query.ts';
import type { Route, RouteContext } from '../route.ts';
import { accessQueryRoute } from './access-query.ts';
import { accessRoutes } from './access.ts';
import { billingStateRoutes } from './billing-states.ts';
import { catalogRoute } from './catalog.ts';
import { correctionRoutes } from './corrections.ts';
import { creditRoutes } from './credits.ts';
import { costsRoute } from './costs.ts';
import { destinationPlanRoute } from './destination-plan.ts';
import { destinationRoutes } from './destinations.ts';
import { eventsExportRoute } from './events-export.ts';
import { explainRoute } from './explain.ts';
import { fleetRoute } from './fleet.ts';
import { focusRoute } from './focus.ts';
import { gapsRoute } from './gaps.ts';
import { gpusRoute } from './gpus.ts';
import { healthRoutes } from './health.ts';
import { heldTenantRoutes } from './held-usage.ts';
import { ingestRoute } from './ingest.ts';
import { intakeRoute } from './intake.ts';
import { monthRoute } from './months.ts';
import { portalTokenRoutes } from './portal-tokens.ts';
import { reconcileRoute } from './reconcile.ts';
import { statementRoutes } from './statement.ts';
import { statusRoute } from './status.ts';
import { tenantRoutes } from './tenants.ts';
import { usageRoute } from './usage.ts';
import { verifyRoute } from './verify.ts';
import { webhookRoute } from './webhooks.ts';
import { windowRoutes } from './windows.ts';

/** Bytes of all request bodies in progress of clients with a token. */
const BODY_MEMORY_BYTES = 64 * 1024 * 1024;

/** Bytes of all request bodies in progress without a token: 16 of the largest. */
const WEBHOOK_MEMORY_BYTES = 16 * 1024 * 1024;

/** How many requests may read the prices of billing systems at a time. */
const CONCURRENT_COMPARISONS = 2;

/**
 * Every operation of the API, and the dashboard's page. `docs/reference/openapi.yaml` lists the
 * same; a test compares them.
 */
export function createRoutes(context: RouteContext, page: Page): readonly Route[] {
  const busy = 'too much is being sent at once';
  const memory = new ConcurrencyLimit(BODY_MEMORY_BYTES, busy);
  const webhookMemory = new ConcurrencyLimit(WEBHOOK_MEMORY_BYTES, busy);
  const scans = new Scans();
  const verifications = new ConcurrencyLimit(1, 'the ledger is being verified');
  const comparisons = new ConcurrencyLimit(CONCURRENT_COMPARISONS, 'too many plans at once');
  const { limits, clock } = context;
  const accessRate = new IngestRate('requests', limits.eventsPerSecond, clock);
  const routes = [
    // First, because Express tries routes in order and these are used most.
    ingestRoute(context, memory),
    ...accessRoutes(context, accessRate),
    accessQueryRoute(context, accessRate, memory),
    ...healthRoutes(context),
    statusRoute(context),
    fleetRoute(context),
    catalogRoute(context),
    eventsExportRoute(context, scans),
    ...correctionRoutes(context, memory, scans),
    explainRoute(context, scans),
    usageRoute(context, scans),
    costsRoute(context, scans),
    focusRoute(context, scans),
    monthRoute(context, scans),
    gapsRoute(context),
    gpusRoute(context, scans),
    ...tenantRoutes(context),
    ...statementRoutes(context, scans),
    ...portalTokenRoutes(context, memory),
    ...creditRoutes(context, memory),
    ...heldTenantRoutes(context, memory),
    intakeRoute(context),
    ...destinationRoutes(context, memory),
    destinationPlanRoute(context, comparisons),
    ...windowRoutes(context),
    reconcileRoute(context, scans),
    verifyRoute(context, verifications),
    ...billingStateRoutes(context, memory),
    webhookRoute(context, webhookMemory),
  ];
  return [indexRoute(context.version, routes, page), ...routes];
}

/** GET /: the dashboard for browsers, the list of paths for programs. */
function indexRoute(version: string, routes: readonly Route[], page: Page): Route {
  const index = {
    name: 'meterfeed',
    version,
    routes: routes.map(({ method, path, summary }) => ({
      method: method.toUpperCase(),
      path,
      summary,
    })),
  };
  return {
    method: 'get',
    path: '/',
    access: 'open',
    hub: 'all',
    summary: 'the dashboard in a browser; this list for programs',
    handlers: [
      (request, response) => {
        readQuery(request, []);
        response.vary('Accept, Authorization');
        if (request.accepts(['json', 'html']) === 'html') sendAsset(response, page(request));
        else response.json(index);
      },
    ],
  };
}
