import type { PriceCharge } from '../../model/price-book.ts';
import { quote } from '../../model/quote.ts';
import { chargeFields } from '../../model/pricing/amount.ts';
import { isDay } from '../../model/pricing/past.ts';
import type { PriceDifference } from '../../model/pricing/compare.ts';
import type { ComparedBook } from '../../destinations/prices.ts';
import { ofOperator } from '../fleet/dispatch.ts';
import type { ConcurrencyLimit } from '../limits.ts';
import { badRequest, Problem } from '../problem.ts';
import { pathParameter, readQuery } from '../query.ts';
import type { Route, RouteContext } from '../route.ts';
import { goneSignal } from '../stream-lines.ts';
import { pricesUnread } from './costs.ts';

/**
 * GET /api/v1/destinations/{name}/plan: the prices to create and to change at a billing system so
 * that it has those of the price books (docs/how-to/costs.md#prices-at-billing-systems). It changes
 * nothing.
 */
export function destinationPlanRoute(
  { clock, views }: RouteContext,
  comparisons: ConcurrencyLimit,
): Route {
  return {
    method: 'get',
    path: '/api/v1/destinations/{name}/plan',
    access: 'read',
    summary: 'how prices of a destination differ from the price books',
    handlers: [
      async (request, response) => {
        const day = readDay(readQuery(request, ['day']).get('day'), clock.now());
        const name = pathParameter(request, 'name');
        if (!views.pricesKnown()) throw pricesUnread();
        const { pricing, billing } = views.settings();
        const question = { books: pricing.books, defaultPlan: billing.defaultPlanCode, day };
        comparisons.hold(response);
        const signal = goneSignal(response);
        const operations = ofOperator(views.destinations.operations);
        const outcome = await operations.comparePrices(name, question, signal);
        if (outcome.kind === 'unknown-destination') {
          throw new Problem(404, `no destination ${quote(name)}: see /api/v1/destinations`);
        }
        if (outcome.kind === 'no-prices') {
          const fix = 'name a billing system that makes invoices';
          throw new Problem(
            409,
            `no prices at a ${outcome.type}: destination ${quote(name)}: ${fix}`,
          );
        }
        if (outcome.kind === 'failed' || outcome.kind === 'unusable') {
          throw new Problem(
            outcome.kind === 'failed' ? 502 : 409,
            `${outcome.reason}: destination ${quote(name)}: nothing was compared`,
          );
        }
        response.json({ destination: name, day, plans: outcome.books.map(showBook) });
      },
    ],
  };
}

/** The requested day; today (UTC) by default. */
function readDay(text: string | undefined, now: number): string {
  if (text === undefined) return new Date(now).toISOString().slice(0, 10);
  if (isDay(text)) return text;
  throw badRequest(`no such day: day: ${quote(text)}: write it as in 2026-12-01`);
}

function showBook({ book, currency, plan, exists, differences }: ComparedBook) {
  const same = differences.filter(({ kind }) => kind === 'same').length;
  const others = differences.filter(({ kind }) => kind !== 'same').map(showDifference);
  return { price_book: book, currency, plan, exists, same, differences: others };
}

function showDifference(difference: PriceDifference) {
  const { kind, place } = difference;
  const { price, id, why, wanted, there } = { ...NOTHING, ...difference };
  return {
    kind,
    place,
    price,
    id,
    why,
    wanted: wanted && chargeFields(wanted),
    there: typeof there === 'string' ? { other: there } : there && chargeFields(there),
  };
}

/** Fields that only some kinds of differences have. */
const NOTHING: {
  readonly price?: string;
  readonly id?: string;
  readonly why?: string;
  readonly wanted?: PriceCharge;
  readonly there?: PriceCharge | string;
} = {};
