import type { DestinationSettings } from '../../operator/settings/settings.ts';
import { LATE_KEY } from '../../operator/destinations/stripe/late.ts';
import { Secret } from '../../operator/model/secret.ts';
import type { Account, AccountInvoice } from '../fakes/account.ts';
import { startFakeLago } from '../fakes/lago/lago.ts';
import type { LagoRules } from '../fakes/lago/state.ts';
import { startFakeMetronome } from '../fakes/metronome/metronome.ts';
import type { Contract, MetronomeRules } from '../fakes/metronome/state.ts';
import type { StripeRules } from '../fakes/stripe/state.ts';
import { startFakeStripe } from '../fakes/stripe/stripe.ts';
import { labelOf } from '../fakes/vectors.ts';

export const [G, H] = ['tenant_lb_hours', 'tenant_instance_hours'] as const;
export type Metric = typeof G | typeof H;

/** What G costs on each plan; nothing prices H. */
const PRICES_OF_G = { a: 2, b: 3, c: 2 } as const;
export type PlanName = keyof typeof PRICES_OF_G;
const PLANS = ['a', 'b', 'c'] as const satisfies readonly PlanName[];

/** Plan `c` is priced in another currency. */
export function currencyOf(plan: PlanName): 'USD' | 'EUR' {
  return plan === 'c' ? 'EUR' : 'USD';
}

/** Metronome's id of the euro. */
const EURO = '2714e483-4ff1-48e4-9e25-ac732e8f24f3';

/** A stand-in that makes invoices, with the settings of the destination that feeds it. */
export interface MonthVendor {
  readonly url: string;
  readonly settings: Pick<DestinationSettings, 'type' | 'options'>;
  readonly turnTo: (at: number) => void;
  readonly account: () => Account;
  /** Our id of every event that it has taken, in the order of the account's events. */
  readonly taken: () => readonly string[];
  /** What it was asked to bill of late usage apart, each with its id in it. */
  readonly lateLines: () => readonly string[];
  readonly label: (invoice: AccountInvoice) => string;
  /** Makes the plans, and prices G; after bootstrapping. */
  readonly prepare: () => Promise<void>;
  /** Does what an operator does there to have a metric cost something, as of a moment where it can. */
  readonly price: (plan: PlanName, metric: Metric, each: number, from: number) => Promise<void>;
  /** Does with contracts what an operator does there by hand. Absent where nobody makes any. */
  readonly byHand?: (act: HandAct) => Promise<unknown>;
  readonly close: () => Promise<void>;
}

/** Of the contract that is in force: ends it, archives it, or grants it credit; or makes another one beside it. */
export type HandAct =
  | { readonly hand: 'end'; readonly at: number }
  | { readonly hand: 'archive' }
  | { readonly hand: 'credit'; readonly cents: number }
  | { readonly hand: 'sign'; readonly card: PlanName; readonly from: number };

export interface LagoOptions {
  readonly rules?: Partial<LagoRules>;
  /** In cents, of plan `a` and of the others. */
  readonly baseFees?: readonly [a: number, others: number];
  /** Prices stand in charges that somebody has added, beside those of 0 that bootstrapping has made. */
  readonly chargesByHand?: boolean;
  /** In cents: what the charge of G, and each plan, costs a month at the least. */
  readonly minimums?: readonly [charge: number, plan: number];
  /** In cents: usage that has come to as much is invoiced at once. */
  readonly usageThreshold?: number;
}

export async function startLago({
  rules = {},
  baseFees = [0, 0],
  chargesByHand = false,
  minimums: [ofCharge, ofPlan] = [0, 0],
  usageThreshold,
}: LagoOptions): Promise<MonthVendor> {
  const store = (rules.ingestMs ?? 0) > 0 ? 'clickhouse' : 'postgres';
  const lago = await startFakeLago({ apiKey: 'key', rules, store, keepsRequests: false });
  const { plans } = lago.state;
  const setPrice = (code: string, metric: Metric, amount: number): void => {
    const plan = plans.get(code);
    if (plan === undefined) throw new Error(`no plan: "${code}"`);
    const properties = { amount: String(amount) };
    const own = plan.charges.filter((charge) => charge.billable_metric_code === metric);
    const priced = own.map((charge) => ({
      ...charge,
      properties,
      min_amount_cents: metric === G ? ofCharge : 0,
      ...(chargesByHand && { lago_id: `by-hand-${code}-${metric}`, code: `${metric}_by_hand` }),
    }));
    const others = plan.charges.filter((charge) => chargesByHand || !own.includes(charge));
    plans.set(code, { ...plan, charges: [...others, ...priced] });
  };
  return {
    url: lago.url,
    settings: {
      type: 'lago',
      options: { url: lago.url, apiKey: new Secret('key'), planCode: 'a', currency: 'USD' },
    },
    turnTo: lago.turnTo,
    account: lago.account,
    taken: () => [...lago.state.events.values()].map(({ transaction_id }) => transaction_id),
    lateLines: () =>
      [...lago.state.invoices.flatMap(({ fees }) => fees), ...lago.state.creditNotes]
        .map(({ description = '' }) => description)
        .filter((text) => text.includes('(late_')),
    label: labelOf,
    prepare: async () => {
      const plan = plans.get('a');
      if (plan === undefined) throw new Error('bootstrapping has made no plan');
      const [ofA, ofOthers] = baseFees;
      for (const code of PLANS) {
        const amount_cents = code === 'a' ? ofA : ofOthers;
        const own = code === 'a' ? {} : { lago_id: code, code };
        plans.set(code, {
          ...plan,
          ...own,
          amount_cents,
          amount_currency: currencyOf(code),
          minimum_commitment: ofPlan === 0 ? null : { amount_cents: ofPlan },
          usage_thresholds:
            usageThreshold === undefined ? [] : [{ amount_cents: usageThreshold, recurring: true }],
        });
        setPrice(code, G, PRICES_OF_G[code]);
      }
    },
    price: async (plan, metric, each) => setPrice(plan, metric, each),
    close: () => lago.close(),
  };
}

export async function startStripe(
  rules: Partial<StripeRules> = {},
  splitMetersBy: readonly string[] = ['sku'],
): Promise<MonthVendor> {
  const stripe = await startFakeStripe({ apiKey: 'sk_test_key', rules, keepsRequests: false });
  const call = callTo(stripe.url, 'sk_test_key');
  const made = new Map<string, string>();
  const price = async (plan: PlanName, metric: Metric, each: number): Promise<void> => {
    const meters = [...stripe.state.meters.values()];
    const meter = meters.find(({ event_name }) => event_name === metric);
    const form = {
      currency: currencyOf(plan).toLowerCase(),
      'product_data[name]': metric,
      unit_amount_decimal: String(each * 100),
      'recurring[interval]': 'month',
      'recurring[usage_type]': 'metered',
      'recurring[meter]': meter?.id ?? '',
      'metadata[vbilling_plan]': plan,
    };
    const before = made.get(`${plan} ${metric}`);
    const { id } = await call('/v1/prices', new URLSearchParams(form));
    made.set(`${plan} ${metric}`, id);
    if (before === undefined) return;
    await call(`/v1/prices/${before}`, new URLSearchParams({ active: 'false' }));
  };
  return {
    url: stripe.url,
    settings: {
      type: 'stripe',
      options: {
        url: stripe.url,
        apiKey: new Secret('sk_test_key'),
        apiVersion: '2026-09-30.endive',
        splitMetersBy,
        autoSubscribe: true,
        cancelOnRemove: true,
        maxRequestsPerSecond: 0,
        planCode: 'a',
        currency: 'USD',
        billingDay: 1,
      },
    },
    turnTo: stripe.turnTo,
    account: stripe.account,
    taken: () => stripe.state.events.map(({ identifier }) => identifier),
    lateLines: () =>
      [...stripe.state.invoiceItems, ...stripe.state.creditNotes].flatMap(
        ({ metadata }) => metadata[LATE_KEY] ?? [],
      ),
    label: labelOf,
    prepare: async () => {
      for (const plan of PLANS) await price(plan, G, PRICES_OF_G[plan]);
    },
    price,
    close: () => stripe.close(),
  };
}

export async function startMetronome(rules: Partial<MetronomeRules> = {}): Promise<MonthVendor> {
  const metronome = await startFakeMetronome({ apiToken: 'token', rules, keepsRequests: false });
  const call = callTo(metronome.url, 'token');
  const post = async (path: string, body: unknown): Promise<string> =>
    (await call(`/v1/contract-pricing/${path}`, JSON.stringify(body))).id;
  const cards = new Map<string, string>();
  for (const name of PLANS) {
    const inEuro = currencyOf(name) === 'EUR' && { fiat_credit_type_id: EURO };
    cards.set(name, await post('rate-cards/create', { name, ...inEuro }));
  }
  const products = new Map<Metric, string>();
  const rate = (card: string, metric: Metric, each: number, from: number): Promise<string> =>
    post('rate-cards/addRate', {
      rate_card_id: cards.get(card),
      product_id: products.get(metric),
      starting_at: new Date(from).toISOString(),
      entitled: true,
      rate_type: 'FLAT',
      price: each * 100,
    });
  return {
    url: metronome.url,
    settings: {
      type: 'metronome',
      options: {
        url: metronome.url,
        apiToken: new Secret('token'),
        rateCard: 'a',
        currency: 'USD',
      },
    },
    turnTo: metronome.turnTo,
    account: metronome.account,
    taken: () => metronome.state.events.map(({ transaction_id }) => transaction_id),
    lateLines: () => [],
    label: (invoice) => `${labelOf(invoice)}/${invoice.of}`,
    prepare: async () => {
      for (const name of [G, H]) {
        const metric = metronome.state.metrics.find(({ event_type_filter }) =>
          JSON.stringify(event_type_filter).includes(`"${name}"`),
        );
        const product = { name, type: 'USAGE', billable_metric_id: metric?.id };
        products.set(name, await post('products/create', product));
      }
      const from = Date.UTC(2027, 0, 1);
      for (const card of PLANS) await rate(card, G, PRICES_OF_G[card], from);
    },
    price: async (plan, metric, each, from) => void (await rate(plan, metric, each, from)),
    byHand: async (act) => {
      const { contracts } = metronome.state;
      const contract = contracts.findLast(({ archived_at }) => archived_at === undefined);
      if (contract === undefined) return undefined;
      const { path, body } = handCall(act, contract, cards);
      return call(path, JSON.stringify({ customer_id: contract.customer_id, ...body }));
    },
    close: () => metronome.close(),
  };
}

function handCall(
  act: HandAct,
  { id: contract_id, starting_at: begin }: Contract,
  cards: ReadonlyMap<string, string>,
): { readonly path: string; readonly body: object } {
  if (act.hand === 'end') {
    // None ends before it has begun.
    const at = Math.max(act.at, Date.parse(begin) + 3_600_000);
    const ending_before = new Date(at).toISOString();
    return { path: '/v1/contracts/updateEndDate', body: { contract_id, ending_before } };
  }
  if (act.hand === 'archive') {
    return { path: '/v1/contracts/archive', body: { contract_id, void_invoices: false } };
  }
  if (act.hand === 'credit') {
    const schedule_items = [{ amount: act.cents, starting_at: begin }];
    const add_credits = [{ access_schedule: { schedule_items } }];
    return { path: '/v2/contracts/edit', body: { contract_id, add_credits } };
  }
  const starting_at = new Date(act.from).toISOString();
  return { path: '/v1/contracts/create', body: { rate_card_id: cards.get(act.card), starting_at } };
}

/** Calls as an operator makes them; gives what was made. */
function callTo(url: string, key: string) {
  return async (path: string, body: string | URLSearchParams): Promise<{ readonly id: string }> => {
    const response = await fetch(url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}` },
      body,
    });
    const text = await response.text();
    if (response.status !== 200) throw new Error(`${path}: ${response.status}: ${text}`);
    const answer = (text === '' ? {} : JSON.parse(text)) as {
      readonly id?: string;
      readonly data?: { readonly id?: string };
    };
    return { id: answer.id ?? answer.data?.id ?? '' };
  };
}
