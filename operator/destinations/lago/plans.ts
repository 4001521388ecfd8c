import type { UsageEvent } from '../../model/event.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { UnpricedUsage } from '../prices.ts';
import type { ApiProblem } from '../json-api/answer.ts';
import { type JsonObject, objectOf, objectsOf, textOf } from '../json.ts';
import type { LagoMetric } from './billable-metrics.ts';
import { intervalsPerYear } from './billing-period.ts';
import { isTaken, type LagoClient } from './lago-client.ts';

/** How long the destination uses a plan without reading it again. */
const FRESH_MS = 300_000;
/** The bound of remembered kinds of usage; further kinds are not checked for prices. */
const MAX_SEEN = 2_000;
/** Matches any value in a charge's filter. */
export const ANY_VALUE = '__ALL_FILTER_VALUES__';
const FREE = /^0*(\.0*)?$/;

export interface LagoPlan {
  readonly code: string;
  /** ISO 4217 */
  readonly currency: string;
  /** The base fee of a year, cents. A plan with a lower one takes over at the end of a period. */
  readonly yearlyCents: number;
  /** How often Lago invoices usage, such as `monthly`. */
  readonly usageInterval: string;
  readonly charges: readonly LagoCharge[];
}

export interface LagoCharge {
  readonly metric: string;
  /** Plain text of a standard charge's amount; undefined for other models. */
  readonly amount: string | undefined;
  readonly filters: readonly { readonly values: JsonObject; readonly amount: string | undefined }[];
}

export type PlanOutcome =
  | { readonly kind: 'plan'; readonly plan: LagoPlan }
  | { readonly kind: 'missing' }
  | ApiProblem;

interface WantedPlan {
  readonly code: string;
  /** ISO 4217 */
  readonly currency: string;
}

/**
 * Reads and creates plans, and adds charges to them. It never replaces a plan, which would drop
 * prices (docs/how-to/destinations/lago.md#metrics-and-plan).
 */
export class LagoPlans {
  readonly #client: LagoClient;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #cache = new Map<string, { readonly plan: LagoPlan; readonly at: number }>();

  constructor(client: LagoClient, clock: Clock, logger: Logger) {
    this.#client = client;
    this.#clock = clock;
    this.#logger = logger;
  }

  async find(code: string, signal: AbortSignal): Promise<PlanOutcome> {
    const known = this.#cache.get(code);
    if (known !== undefined && this.#clock.monotonic() - known.at < FRESH_MS) {
      return { kind: 'plan', plan: known.plan };
    }
    return this.#read(code, signal);
  }

  /** Returns the plan as last read. */
  known(code: string): LagoPlan | undefined {
    return this.#cache.get(code)?.plan;
  }

  /** Creates the default plan with a charge of 0 for each metric, or adds missing charges. */
  async ensure(
    wanted: WantedPlan,
    metrics: readonly LagoMetric[],
    signal: AbortSignal,
  ): Promise<PlanOutcome> {
    const found = await this.#read(wanted.code, signal);
    if (found.kind === 'missing') return this.#make(wanted, metrics, signal);
    return found.kind === 'plan' ? this.#addCharges(found.plan, metrics, signal) : found;
  }

  /** Creates a plan with no base fee and a charge of 0 per metric; an existing plan stays. */
  async #make(
    { code, currency }: WantedPlan,
    metrics: readonly LagoMetric[],
    signal: AbortSignal,
  ): Promise<PlanOutcome> {
    const plan = {
      name: titleOf(code),
      code,
      interval: 'monthly',
      amount_cents: 0,
      amount_currency: currency,
      pay_in_advance: false,
      charges: metrics.map(({ id }) => chargeOf(id)),
    };
    const answer = await this.#client.call('POST', '/plans', { plan }, signal);
    if (answer.kind === 'ok') this.#logger.info(`[bootstrap] created plan "${code}"`);
    else if (answer.kind !== 'refused' || !isTaken(answer)) return answer;
    return this.#read(code, signal);
  }

  async #read(code: string, signal: AbortSignal): Promise<PlanOutcome> {
    const answer = await this.#client.get(`/plans/${encodeURIComponent(code)}`, signal);
    if (answer.kind === 'refused' && answer.code === 'plan_not_found') return { kind: 'missing' };
    if (answer.kind !== 'ok') return answer;
    const plan = readPlan(objectOf(answer.body, 'plan'));
    this.#cache.set(code, { plan, at: this.#clock.monotonic() });
    return { kind: 'plan', plan };
  }

  /** Adds missing charges. An older server cannot: its owner then maintains the plan. */
  async #addCharges(
    plan: LagoPlan,
    metrics: readonly LagoMetric[],
    signal: AbortSignal,
  ): Promise<PlanOutcome> {
    const charged = new Set(plan.charges.map(({ metric }) => metric));
    const missing = metrics.filter(({ code }) => !charged.has(code));
    for (const { id, code } of missing) {
      const path = `/plans/${encodeURIComponent(plan.code)}/charges`;
      const charge = { ...chargeOf(id), code };
      const answer = await this.#client.call('POST', path, { charge }, signal);
      if (answer.kind === 'ok') {
        this.#logger.info(`[bootstrap] added a charge for "${code}" to plan "${plan.code}"`);
        continue;
      }
      if (answer.kind !== 'refused') return answer;
      if (isTaken(answer)) continue;
      if (answer.code !== 'resource_not_found') return answer;
      const lacking = missing.map((metric) => metric.code).join(', ');
      this.#logger.warn(
        `[bootstrap] warning: this Lago cannot add charges to a plan: add them to "${plan.code}" by hand: ${lacking}`,
      );
      break;
    }
    return missing.length === 0 ? { kind: 'plan', plan } : this.#read(plan.code, signal);
  }
}

/** The amount is text: Lago refuses a number. */
function chargeOf(metricId: string) {
  return {
    billable_metric_id: metricId,
    charge_model: 'standard',
    properties: { amount: '0' },
  };
}

/** Turns `tenant-standard` into `Tenant standard`. */
function titleOf(code: string): string {
  const words = code.replace(/[-_]+/g, ' ').trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function readPlan(object: JsonObject): LagoPlan {
  const interval = textOf(object, 'interval') ?? '';
  const isMonthly = object['bill_charges_monthly'] === true;
  return {
    code: textOf(object, 'code') ?? '',
    currency: textOf(object, 'amount_currency') ?? '',
    yearlyCents: Number(object['amount_cents'] ?? 0) * intervalsPerYear(interval),
    usageInterval: isMonthly ? 'monthly' : interval,
    charges: objectsOf(object, 'charges').map((charge) => ({
      metric: textOf(charge, 'billable_metric_code') ?? '',
      amount: amountOf(charge),
      filters: objectsOf(charge, 'filters').map((filter) => ({
        values: objectOf(filter, 'values'),
        amount: amountOf(filter),
      })),
    })),
  };
}

function amountOf(object: JsonObject): string | undefined {
  return textOf(objectOf(object, 'properties'), 'amount');
}

/** Remembers delivered kinds of usage and finds those without a priced charge. */
export class LagoUnpricedWatch {
  readonly #seen = new Map<string, UnpricedUsage>();

  see(plan: string, events: readonly UsageEvent[]): void {
    for (const { metric, sku } of events) {
      const key = `${plan}\0${metric}\0${sku ?? ''}`;
      if (this.#seen.has(key) || this.#seen.size >= MAX_SEEN) continue;
      this.#seen.set(key, { plan, metric, sku });
    }
  }

  /** Returns the plans of delivered usage. */
  plans(): readonly string[] {
    return [...new Set([...this.#seen.values()].map(({ plan }) => plan))];
  }

  /**
   * Returns kinds of usage without a price. `planOf` returns a plan as last read; kinds of unknown
   * plans are left out.
   */
  unpriced(planOf: (code: string) => LagoPlan | undefined): readonly UnpricedUsage[] {
    return [...this.#seen.values()].filter((usage) => {
      const plan = planOf(usage.plan);
      return plan !== undefined && !isPriced(plan, usage);
    });
  }
}

function isPriced({ charges }: LagoPlan, { metric, sku }: UnpricedUsage): boolean {
  return charges.some((charge) => charge.metric === metric && prices(charge, sku));
}

/**
 * Returns whether a charge prices an SKU. A model other than `standard` has no amount of its own,
 * and counts as priced.
 */
function prices(charge: LagoCharge, sku: string | undefined): boolean {
  if (!isFree(charge.amount)) return true;
  return charge.filters.some(({ values, amount }) => {
    const skus = values['sku'];
    const concerns = !Array.isArray(skus) || skus.includes(ANY_VALUE) || skus.includes(sku);
    return concerns && !isFree(amount);
  });
}

function isFree(amount: string | undefined): boolean {
  return amount !== undefined && FREE.test(amount);
}
