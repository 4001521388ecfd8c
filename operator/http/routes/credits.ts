import type { Request } from 'express';
import { type Credit, type CreditRequest, sumCredits } from '../../billing/budgets/credits.ts';
import { exactText, unitText } from '../../billing/budgets/unit.ts';
import type { BudgetCounts } from '../../model/budget.ts';
import { type Decimal, nanosFromDecimal, parseSigned } from '../../model/decimal.ts';
import { quote } from '../../model/validate-event.ts';
import { currencyDigits } from '../../model/pricing/money.ts';
import { ofOperator } from '../fleet/dispatch.ts';
import type { ConcurrencyLimit } from '../limits.ts';
import { isoTime } from '../presentation.ts';
import { badRequest, Problem, tryLater } from '../problem.ts';
import { pathParameter, readQuery } from '../query.ts';
import { readBody, readFields } from '../request-body.ts';
import type { Route, RouteContext } from '../route.ts';

const PATH = '/api/v1/tenants/{tenant}/credits';
const MAX_BODY_BYTES = 4 * 1024;
const FIELDS = ['key', 'amount', 'currency', 'metric', 'note', 'reference'] as const;
const EXAMPLE = '{"key": "…", "amount": "100", "currency": "EUR"}';
const LONGEST_KEY = 128;
const LONGEST_TEXT = 256;
const CLEAN_TEXT = /^[^\p{Cc}\p{Cs}\u2028\u2029]+$/u;
const CURRENCY = /^[A-Z]{3}$/;
/** The same limit as for a budget's amount in the custom resources. */
const MOST_NANOS = 10n ** 21n;
const MOST_CREDITS = 1_000;

/**
 * GET and POST /api/v1/tenants/{tenant}/credits: prepaid balances and their credits
 * (docs/how-to/budgets.md#credits).
 */
export function creditRoutes(context: RouteContext, memory: ConcurrencyLimit): readonly Route[] {
  const credits = () => ofOperator(context.views.credits);
  return [
    {
      method: 'get',
      path: PATH,
      access: 'read',
      hub: 'refused',
      summary: 'what a tenant was credited with, and what is left',
      handlers: [
        async (request, response) => {
          readQuery(request, []);
          const tenant = pathParameter(request, 'tenant');
          const all = await Array.fromAsync(credits().list(tenant));
          if (all.length === 0) requireKnown(context, tenant);
          const newest = all.toSorted((a, b) => b.at - a.at || (a.key < b.key ? 1 : -1));
          response.json({
            tenant,
            balances: await balancesOf(context, all),
            total: all.length,
            credits: newest.slice(0, MOST_CREDITS).map(showCredit),
          });
        },
      ],
    },
    {
      method: 'post',
      path: PATH,
      access: 'change',
      hub: 'refused',
      summary: 'credit a prepaid balance, once for each key',
      handlers: [
        readBody({ maxBytes: MAX_BODY_BYTES, memory }),
        async (request, response) => {
          readQuery(request, []);
          const wanted = readCredit(context, request);
          const outcome = await credits().add(wanted);
          if (outcome.kind === 'failed') {
            throw tryLater(
              503,
              5,
              `ledger write failed: ${outcome.message}: nothing was credited; send it again with the same key`,
            );
          }
          if (outcome.kind === 'conflict') {
            const { amount, counts } = outcome.credit;
            throw new Problem(
              409,
              `used for another credit: key: ${quote(wanted.key)}: it stands for ${amount} ${unitText({ counts })}; take a new key for a new credit`,
            );
          }
          const { credit, isNew } = outcome;
          const { tenant, key, amount } = credit;
          // What an operator does by hand is always in the log.
          if (isNew) context.logger.info('[http] a tenant was credited', { tenant, key, amount });
          response.json({ tenant, ...showCredit(credit) });
        },
      ],
    },
  ];
}

async function balancesOf({ views }: RouteContext, all: readonly Credit[]) {
  const sums = await sumCredits(all);
  return sums
    .map(({ tenant, counts, amount, since }) => {
      const used = ofOperator(views.budgets).prepaidUsed(tenant, counts);
      if (used === undefined) {
        throw tryLater(503, 5, 'not counted yet: balances: try again in a moment');
      }
      return {
        ...showUnit(counts),
        credited: exactText(counts, amount),
        used: exactText(counts, used),
        left: exactText(counts, amount - used),
        since: isoTime(since),
      };
    })
    .toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
}

function showCredit({ key, amount, counts, note, reference, at }: Credit) {
  return { key, amount, ...showUnit(counts), note, reference, at: isoTime(at) };
}

function showUnit(counts: BudgetCounts) {
  return counts.kind === 'money' ? { currency: counts.currency } : { metric: counts.metric };
}

function readCredit(context: RouteContext, request: Request): CreditRequest {
  const tenant = pathParameter(request, 'tenant');
  requireKnown(context, tenant);
  const body = readFields(request.body, FIELDS, EXAMPLE);
  const counts = readCounts(context, body);
  const expected = ofOperator(context.views.budgets).prepaidCounts(tenant);
  if (expected !== undefined && unitText({ counts: expected }) !== unitText({ counts })) {
    throw badRequest(
      `not what the tenant's prepaid budget counts: ${counts.kind === 'money' ? 'currency' : 'metric'}: ${quote(unitText({ counts }))}: credit ${unitText({ counts: expected })}`,
    );
  }
  const key = readText(body.key, 'key', LONGEST_KEY);
  if (key === undefined)
    throw badRequest('missing: key: name the credit, by the id of the payment');
  return {
    tenant,
    key,
    amount: readAmount(body.amount),
    counts,
    note: readText(body.note, 'note', LONGEST_TEXT),
    reference: readText(body.reference, 'reference', LONGEST_TEXT),
  };
}

function readAmount(value: unknown): Decimal {
  const amount = typeof value === 'string' ? parseSigned(value) : undefined;
  const nanos = amount === undefined ? 0n : nanosFromDecimal(amount);
  if (amount !== undefined && nanos !== 0n && nanos < MOST_NANOS && -nanos < MOST_NANOS) {
    return amount;
  }
  throw badRequest(
    `not an amount: amount: ${quote(value)}: send text as in "100" or "0.5", with up to 9 decimals; below zero takes credit back`,
  );
}

function readCounts(
  { views }: RouteContext,
  { currency, metric }: { readonly currency?: unknown; readonly metric?: unknown },
): BudgetCounts {
  if ((currency === undefined) === (metric === undefined)) {
    throw badRequest(
      'give one of them: currency, metric: currency for money, metric for a quantity',
    );
  }
  if (currency !== undefined) {
    if (
      typeof currency === 'string' &&
      CURRENCY.test(currency) &&
      currencyDigits(currency) !== undefined
    ) {
      return { kind: 'money', currency };
    }
    throw badRequest(`not a currency: currency: ${quote(currency)}: send a code such as EUR`);
  }
  const known = typeof metric === 'string' ? views.catalog().find(metric) : undefined;
  if (known === undefined || known.informational) {
    throw badRequest(`not a metric that is charged: metric: ${quote(metric)}: see /api/v1/catalog`);
  }
  return { kind: 'metric', metric: known.code };
}

function readText(value: unknown, field: string, longest: number): string | undefined {
  if (value === undefined) return undefined;
  if (typeof value === 'string' && value.length <= longest && CLEAN_TEXT.test(value)) return value;
  throw badRequest(
    `not a text of 1 to ${longest} characters: ${field}: ${quote(value)}: shorten it`,
  );
}

/** Throws 404 for an unknown tenant, 503 until the first discovery pass. */
function requireKnown({ views }: RouteContext, id: string): void {
  if (views.discovery.tenants().some((tenant) => tenant.id === id)) return;
  if (!views.discovery.known()) {
    throw tryLater(503, 5, 'waiting for first successful discovery: tenants: try again');
  }
  throw new Problem(404, `no such tenant: ${quote(id)}: see /api/v1/tenants`);
}
