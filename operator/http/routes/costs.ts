import type { PriceBook } from '../../model/price-book.ts';
import { quote } from '../../model/quote.ts';
import { CostSums, isPricingKey } from '../../billing/usage/cost-sums.ts';
import { pricesInForce } from '../../billing/usage/prices-in-force.ts';
import { tokenCosts } from '../../billing/usage/token-costs.ts';
import type { EventFilter } from '../../billing/usage/usage-sums.ts';
import type { TimeRange } from '../../model/window.ts';
import type { TotalsOutcome } from '../../billing/usage/usage-totals.ts';
import { CSV_PARAMETERS, readCsvFile } from '../csv.ts';
import type { Scans } from '../limits.ts';
import { badRequest, tryLater } from '../problem.ts';
import {
  FILTER_PARAMETERS,
  type Query,
  RANGE_PARAMETERS,
  readChoice,
  readFilter,
  readQuery,
  readTimeRange,
} from '../query.ts';
import type { Route, RouteContext } from '../route.ts';
import { tenantOf } from '../scope.ts';
import { SharedAnswers } from '../shared-answers.ts';
import type { Views } from '../views.ts';
import { type CostAnswer, COST_SENDERS } from './cost-answer.ts';
import {
  addUsage,
  emptyKeys,
  MAX_ROWS,
  noteOf,
  readGroupBy,
  rebuilding,
  refuseLongByWindow,
  sharedOrMade,
} from './usage.ts';

/** Fields of a row, which a dimension of the same name would overwrite. */
const ROW_FIELDS = ['currency', 'events', 'unpriced', 'cost'];

/** Answers cached for readers that accept an older one. */
const SHARED_ANSWERS = 64;

/** GET /api/v1/costs: the cost of a range's usage by the price books (docs/how-to/costs.md). */
export function costsRoute(context: RouteContext, scans: Scans): Route {
  const { clock, ledger, views } = context;
  const sharedAnswers = answersByPrices(context);
  return {
    method: 'get',
    path: '/api/v1/costs',
    access: 'read',
    hub: 'all',
    tenantScope: 'filtered',
    summary: 'what usage costs by tenant, sku, day, dimension…, as JSON, CSV or NDJSON',
    handlers: [
      async (request, response) => {
        const query = readQuery(request, [
          ...RANGE_PARAMETERS,
          ...FILTER_PARAMETERS,
          'group_by',
          'format',
          ...CSV_PARAMETERS,
        ]);
        const range = readTimeRange(query, clock.now());
        const groupBy = readGroupBy(query.get('group_by'));
        refuseRowFields(groupBy);
        refuseLongByWindow(groupBy, range);
        const format = readChoice(query, 'format', ['json', 'csv', 'ndjson']);
        const file = readCsvFile(query, range, clock.now());
        if (!views.pricesKnown()) throw pricesUnread();
        const make = async (signal: AbortSignal): Promise<CostAnswer> => {
          scans.hold(response);
          return sumCosts(context, query, range, groupBy, signal);
        };
        const requested = { query, range, groupBy, head: ledger.head() };
        const answers = sharedAnswers();
        const answer = await sharedOrMade({ request, response, requested, answers, make });
        const [warning] = answer.warnings ?? [];
        if (format !== 'json' && warning !== undefined) {
          throw badRequest(`${warning}: leave it out, or request JSON`);
        }
        // A tenant does not see what its provider earns.
        const { rows } = answer;
        const models = tenantOf(request) === undefined ? tokenCosts(groupBy, rows) : [];
        await COST_SENDERS[format](response, { ...answer, file, tokenCosts: models });
      },
    ],
  };
}

/** The cache of answers; every change of the prices empties it. */
function answersByPrices({ clock, views }: RouteContext): () => SharedAnswers<CostAnswer> {
  const none = () => new SharedAnswers<CostAnswer>(clock, SHARED_ANSWERS);
  let answers = none();
  let pricedBy: readonly PriceBook[] | undefined;
  return () => {
    const { books } = views.settings().pricing;
    if (books !== pricedBy) answers = none();
    pricedBy = books;
    return answers;
  };
}

/** The 503 until every PriceBook has been read: costs without prices would be wrong. */
export function pricesUnread(): Error {
  const fix = 'try again in a moment; if it persists, see the log for pricebooks';
  return tryLater(503, 5, `PriceBooks have not been read yet: ${fix}`);
}

function refuseRowFields(groupBy: readonly string[]): void {
  const taken = groupBy.find((key) => ROW_FIELDS.includes(key));
  if (taken === undefined) return;
  throw badRequest(`a field of every row of costs: group_by: ${quote(taken)}: leave it out`);
}

/**
 * Sums the requested usage. Where prices have tiers, it also sums all calendar months that the
 * range touches.
 */
async function sumCosts(
  context: RouteContext,
  query: Query,
  range: TimeRange,
  groupBy: readonly string[],
  signal: AbortSignal,
): Promise<CostAnswer> {
  const { views } = context;
  const without = new Set<string>();
  const pricesOf = await pricesInForce(
    context.ledger,
    views.settings(),
    views.discovery.tenants(),
    (plan) => without.add(plan),
  );
  const sums = new CostSums(groupBy, MAX_ROWS, pricesOf);
  const tenant = query.get('tenant');
  const requested = await addUsage(context, sums, {
    range,
    filter: chargedOnly(views, readFilter(query)),
    tenant,
    hourly: groupBy.includes('hour'),
    byWindow: groupBy.includes('window'),
    signal,
  });
  const outcomes = [addedOf(requested)];
  if (sums.dependsOnMonths) {
    const filter = chargedOnly(views, tenantAndMetric(query));
    const months = { range: monthsOf(range), filter, tenant, hourly: false, signal };
    outcomes.push(addedOf(await addUsage(context, sums.months(), months)));
  }
  const rows = sums.rows();
  const note = noteOf(outcomes);
  const warnings = emptyKeys(context, groupBy, rows, isPricingKey);
  return { range, groupBy, rows, plansWithoutPrices: [...without], note, ...warnings };
}

/** The filter without informational metrics: nobody is charged for them, so they need no price. */
function chargedOnly(views: Views, filter: EventFilter): EventFilter {
  const catalog = views.catalog();
  return (item) => filter(item) && catalog.find(item.metric)?.informational !== true;
}

/** The filter for tiers, which count usage of all projects, regions and SKUs. */
function tenantAndMetric(query: Query): EventFilter {
  const [tenant, metric] = [query.get('tenant'), query.get('metric')];
  return (item) =>
    (tenant === undefined || item.tenant === tenant) &&
    (metric === undefined || item.metric === metric);
}

function monthsOf({ from, to }: TimeRange): TimeRange {
  const [first, last] = [new Date(from), new Date(to - 1)];
  return {
    from: Date.UTC(first.getUTCFullYear(), first.getUTCMonth()),
    to: Date.UTC(last.getUTCFullYear(), last.getUTCMonth() + 1),
  };
}

/** Returns the sums. Throws when they have too many rows, and while they are rebuilt. */
function addedOf(outcome: TotalsOutcome): Extract<TotalsOutcome, { kind: 'added' }> {
  if (outcome.kind === 'full') {
    throw badRequest(
      `more than ${MAX_ROWS} rows and invoice lines: group_by: use fewer keys, filters or a short range`,
    );
  }
  if (outcome.kind === 'rebuilding') throw rebuilding();
  return outcome;
}
