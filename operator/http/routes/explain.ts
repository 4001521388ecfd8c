import type { Explanation, Share } from '../../metering/meters/explanation.ts';
import { gapScopeOf } from '../../metering/meters/meters.ts';
import { type MeteringRule, meteringRule } from '../../model/catalog.ts';
import { isCorrection } from '../../model/correction.ts';
import { encodeEvent, type UsageEvent } from '../../model/event.ts';
import { quote } from '../../model/validate-event.ts';
import { ofOperator } from '../fleet/dispatch.ts';
import type { Scans } from '../limits.ts';
import { bearsOn, forTenant } from '../gap-groups.ts';
import { isoTime, showGap, snakeCaseKeys } from '../presentation.ts';
import { Problem } from '../problem.ts';
import { pathParameter, readQuery } from '../query.ts';
import type { Route, RouteContext } from '../route.ts';
import { isForeign, tenantOf } from '../scope.ts';
import type { Gap } from '../views.ts';

const COLLECTOR = 'collector';

/** GET /api/v1/events/{id}/explain: objects, spans, label decisions and rule of a quantity. */
export function explainRoute({ ledger, views }: RouteContext, scans: Scans): Route {
  return {
    method: 'get',
    path: '/api/v1/events/{id}/explain',
    access: 'read',
    hub: 'refused',
    tenantScope: 'shown',
    summary: 'what stands behind the number of an event',
    handlers: [
      async (request, response) => {
        readQuery(request, []);
        const id = pathParameter(request, 'id');
        scans.hold(response);
        const event = await ledger.find(id);
        // An event of another tenant is answered as if it did not exist.
        if (event === undefined || isForeign(request, event.tenant)) {
          throw new Problem(
            404,
            `no such event: ledger: ${quote(id)}: use an id of /api/v1/events`,
          );
        }
        if (event.source !== COLLECTOR) {
          send(event, isCorrection(event) ? showCorrection(event) : showPushed(event));
          return;
        }
        const found = await ofOperator(views.explanations).find(event);
        if (found.kind === 'gone') {
          const shown = `no explanation: event ${quote(id)}: ${found.reason}`;
          throw new Problem(410, `${shown}: the event itself is in /api/v1/events`);
        }
        const rule = meteringRule(event.metric);
        const isTenant = tenantOf(request) !== undefined;
        if (found.kind === 'asked') {
          // The query is about the provider's own systems, so a tenant does not read it.
          send(event, showRequested(event, isTenant ? undefined : found.promql, rule));
          return;
        }
        const bearing = views.metering.gaps().filter((gap) => concerns(gap, event));
        const own = new Set([event.dimensions?.['tenant_cluster'] ?? '']);
        const gaps = isTenant ? bearing.flatMap((gap) => forTenant(gap, own) ?? []) : bearing;
        send(event, showMeasured(event, found.explanation, rule, gaps));

        function send(of: UsageEvent, fields: object): void {
          // The event's quantity is an exact decimal, which JSON.stringify would make a text.
          const body = `{"event":${encodeEvent(of)},${JSON.stringify(fields).slice(1)}\n`;
          response.type('application/json').send(body);
        }
      },
    ],
  };
}

function showCorrection({ source, properties = {} }: UsageEvent): object {
  const { corrects, author, reason } = properties;
  return {
    source,
    rule: {
      text: `${quote(author)} corrected event ${quote(corrects)}: ${quote(reason)}; the number is the difference.`,
      documentation: 'docs/reference/events.md#corrections',
    },
    objects: [],
  };
}

function showPushed({ source = '' }: UsageEvent): object {
  const client = quote(source.replace(/^ingest:/, ''));
  return {
    source,
    rule: {
      text: `Client ${client} sent this event to POST /api/v1/events; it is stored as it was sent, and nothing was measured.`,
      documentation: 'docs/reference/events.md#pushed-events',
    },
    objects: [],
  };
}

function showRequested(
  event: UsageEvent,
  promql: string | undefined,
  { text, documentation }: MeteringRule,
): object {
  return {
    source: COLLECTOR,
    rule: { text, documentation },
    backfilled: event.properties?.['backfilled'] === true,
    ...(promql === undefined ? {} : { query: { promql, time: event.window_end } }),
    objects: [],
  };
}

function showMeasured(
  event: UsageEvent,
  explanation: Explanation,
  { text, documentation }: MeteringRule,
  gaps: readonly Gap[],
): object {
  const { measured, carried, givenBack, addsUp, shares, remainder } = explanation;
  const start = Date.parse(event.window_start);
  return {
    source: COLLECTOR,
    rule: { text, documentation },
    measured,
    carried,
    given_back: givenBack,
    adds_up: addsUp,
    carried_seconds: event.properties?.['carried_seconds'] ?? 0,
    uncertain_seconds: event.properties?.['uncertain_seconds'] ?? 0,
    backfilled: event.properties?.['backfilled'] === true,
    gaps: gaps.map(showGap),
    objects: shares.map((share) => showShare(share, explanation, start)),
    not_listed: remainder,
  };
}

function showShare(
  [subject, uid, name, onNode, from, to, quantity, carried]: Share,
  { subjects, nodes }: Explanation,
  start: number,
): object {
  const { node, ...shown } = snakeCaseKeys({ ...subjects[subject] });
  return {
    ...shown,
    name,
    ...(uid !== '' && { uid }),
    from: isoTime(start + from),
    to: isoTime(start + to),
    seconds: (to - from) / 1000,
    quantity,
    carried: carried === 1,
    ...(onNode !== null && { node: { name: nodes[onNode], ...(node as object | undefined) } }),
  };
}

/** Whether a gap overlaps the event's window and affects its metric. */
function concerns(gap: Gap, event: UsageEvent): boolean {
  const touches =
    gap.from < Date.parse(event.window_end) && gap.to > Date.parse(event.window_start);
  const own = new Set([event.dimensions?.['tenant_cluster'] ?? '']);
  return touches && bearsOn(gap, gapScopeOf(event.metric), own);
}
