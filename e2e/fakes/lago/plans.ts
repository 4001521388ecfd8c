import type { FakeRequest, FakeResponse } from '../fake-server.ts';
import { invalid, isObject, notFound, ok, page, text } from './answers.ts';
import { propertiesProblem } from './charge-models.ts';
import type { Charge, ChargeFilter, LagoState, Metric, Plan } from './state.ts';

const INTERVALS = new Set(['weekly', 'monthly', 'quarterly', 'semiannual', 'yearly']);
const CHARGE_MODELS = new Set(['standard', 'graduated', 'package', 'percentage', 'volume']);

export function listPlans(state: LagoState, { query }: FakeRequest): FakeResponse {
  return page('plans', [...state.plans.values()], query);
}

export function showPlan(state: LagoState, code: string): FakeResponse {
  const plan = state.plans.get(code);
  return plan === undefined ? notFound('plan') : ok({ plan });
}

export function createPlan(
  state: LagoState,
  input: Readonly<Record<string, unknown>>,
  at: number,
): FakeResponse {
  const details: Record<string, string[]> = {};
  const code = text(input['code']);
  if (text(input['name']) === undefined) details['name'] = ['value_is_mandatory'];
  if (code === undefined) details['code'] = ['value_is_mandatory'];
  else if (state.plans.has(code)) details['code'] = ['value_already_exist'];
  if (!INTERVALS.has(String(input['interval']))) details['interval'] = ['value_is_invalid'];
  if (!Number.isInteger(input['amount_cents'])) details['amount_cents'] = ['value_is_mandatory'];
  if (!/^[A-Z]{3}$/.test(String(input['amount_currency']))) {
    details['amount_currency'] = ['invalid_currency'];
  }
  if (Object.keys(details).length > 0) return invalid(details);
  const charges: Charge[] = [];
  for (const item of (input['charges'] ?? []) as unknown[]) {
    const charge = readCharge(state, isObject(item) ? item : {}, charges, at);
    if ('status' in charge) return charge;
    charges.push(charge);
  }
  const plan: Plan = {
    lago_id: state.nextId(),
    name: String(input['name']),
    code: code ?? '',
    interval: String(input['interval']),
    amount_cents: Number(input['amount_cents']),
    amount_currency: String(input['amount_currency']),
    pay_in_advance: input['pay_in_advance'] === true,
    minimum_commitment: minimumOf(input['minimum_commitment']),
    usage_thresholds: thresholdsOf(input['usage_thresholds']),
    created_at: new Date(at).toISOString(),
    charges,
  };
  state.plans.set(plan.code, plan);
  return ok({ plan });
}

/** Updates a plan. It deletes every charge without an entry, with its prices. */
export function updatePlan(
  state: LagoState,
  code: string,
  input: Readonly<Record<string, unknown>>,
): FakeResponse {
  const plan = state.plans.get(code);
  if (plan === undefined) return notFound('plan');
  plan.name = text(input['name']) ?? plan.name;
  if (Array.isArray(input['charges'])) {
    const items = (input['charges'] as unknown[]).filter(isObject);
    const stored = new Map(items.map((item) => [item['id'], item]));
    plan.charges = plan.charges.filter(({ lago_id }) => stored.has(lago_id));
    for (const charge of plan.charges) {
      const item = stored.get(charge.lago_id) ?? {};
      if (isObject(item['properties'])) charge.properties = item['properties'];
      if (Array.isArray(item['filters'])) charge.filters = item['filters'] as ChargeFilter[];
    }
  }
  return ok({ plan });
}

export function addCharge(
  state: LagoState,
  code: string,
  input: Readonly<Record<string, unknown>>,
  at: number,
): FakeResponse {
  const plan = state.plans.get(code);
  if (plan === undefined) return notFound('plan');
  const own = text(input['code']);
  if (own === undefined) return invalid({ code: ['value_is_mandatory'] });
  if (plan.charges.some((charge) => charge.code === own)) {
    return invalid({ code: ['value_already_exist'] });
  }
  const charge = readCharge(state, input, plan.charges, at);
  if ('status' in charge) return charge;
  plan.charges.push(charge);
  return ok({ charge });
}

/**
 * Replaces a charge's prices at once. It matches filters by their values and deletes those without
 * an entry (lago-api app/services/charges/update_service.rb). The model cannot change once the plan
 * has subscriptions.
 */
export function updateCharge(
  state: LagoState,
  code: string,
  chargeCode: string,
  input: Readonly<Record<string, unknown>>,
): FakeResponse {
  const plan = state.plans.get(code);
  if (plan === undefined) return notFound('plan');
  const charge = plan.charges.find((one) => one.code === chargeCode);
  const metric = charge && state.metrics.get(charge.billable_metric_code);
  if (charge === undefined || metric === undefined) return notFound('charge');
  const isUsed = state.subscriptions.some(({ plan_code }) => plan_code === code);
  const model = isUsed ? charge.charge_model : String(input['charge_model']);
  const properties = isObject(input['properties']) ? input['properties'] : { amount: '0' };
  const filters = input['filters'] === undefined ? charge.filters : readFilters(input['filters']);
  const problem = priceProblem(metric, model, properties, filters);
  if (problem !== undefined) return problem;
  charge.charge_model = model;
  charge.properties = properties;
  charge.filters = filters;
  return ok({ charge });
}

export function showCharge(state: LagoState, code: string, chargeCode: string): FakeResponse {
  const plan = state.plans.get(code);
  if (plan === undefined) return notFound('plan');
  const charge = plan.charges.find((one) => one.code === chargeCode);
  return charge === undefined ? notFound('charge') : ok({ charge });
}

export function listCharges(state: LagoState, code: string, request: FakeRequest): FakeResponse {
  const plan = state.plans.get(code);
  return plan === undefined ? notFound('plan') : page('charges', plan.charges, request.query);
}

function readCharge(
  state: LagoState,
  input: Readonly<Record<string, unknown>>,
  others: readonly Charge[],
  at: number,
): Charge | FakeResponse {
  const id: unknown = input['billable_metric_id'];
  const metric = [...state.metrics.values()].find(({ lago_id }) => lago_id === id);
  if (metric === undefined) return notFound('billable_metrics');
  const model = String(input['charge_model']);
  if (!CHARGE_MODELS.has(model)) return invalid({ charge_model: ['value_is_invalid'] });
  const properties = isObject(input['properties']) ? input['properties'] : { amount: '0' };
  const filters = readFilters(input['filters']);
  const problem = priceProblem(metric, model, properties, filters);
  if (problem !== undefined) return problem;
  const taken = new Set(others.map(({ code }) => code));
  let code = text(input['code']) ?? metric.code;
  for (let number = 2; taken.has(code); number += 1) code = `${metric.code}_${number}`;
  return {
    lago_id: state.nextId(),
    lago_billable_metric_id: metric.lago_id,
    billable_metric_code: metric.code,
    code,
    charge_model: model,
    pay_in_advance: input['pay_in_advance'] === true,
    min_amount_cents: Number(input['min_amount_cents'] ?? 0),
    created_at: new Date(at).toISOString(),
    properties,
    filters,
  };
}

function minimumOf(input: unknown): Plan['minimum_commitment'] {
  return isObject(input) ? { amount_cents: Number(input['amount_cents']) } : null;
}

/** Reads recurring thresholds; others do not change invoices here. */
function thresholdsOf(input: unknown): Plan['usage_thresholds'] {
  const items = Array.isArray(input) ? (input as unknown[]).filter(isObject) : [];
  return items.map((item) => ({ amount_cents: Number(item['amount_cents']), recurring: true }));
}

function readFilters(input: unknown): readonly ChargeFilter[] {
  return (Array.isArray(input) ? input : []) as ChargeFilter[];
}

/**
 * Returns the problem of prices: amounts that are no text, ranges with a hole, or values that the
 * metric lacks.
 */
function priceProblem(
  { filters: allowed }: Pick<Metric, 'filters'>,
  model: string,
  properties: Readonly<Record<string, unknown>>,
  filters: readonly ChargeFilter[],
): FakeResponse | undefined {
  for (const own of [properties, ...filters.map((filter) => filter.properties)]) {
    const details = propertiesProblem(model, own);
    if (details !== undefined) return invalid(details);
  }
  const isKnown = (key: string, value: string): boolean =>
    value.startsWith('__') ||
    allowed.some((filter) => filter.key === key && filter.values.includes(value));
  const isAllowed = filters.every(
    ({ values }) =>
      Object.keys(values).length > 0 &&
      Object.entries(values).every(([key, all]) => all.every((value) => isKnown(key, value))),
  );
  return isAllowed ? undefined : invalid({ values: ['value_is_invalid'] });
}
