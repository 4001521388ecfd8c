import type { FakeRequest, FakeResponse } from '../fake-server.ts';
import { invalid, isObject, notFound, ok, page, text } from './answers.ts';
import { terminate } from './lifecycle.ts';
import { type Customer, type LagoState, zoneOf } from './state.ts';

const DETAILS = [
  'country',
  'address_line1',
  'address_line2',
  'city',
  'state',
  'zipcode',
  'tax_identification_number',
] as const;
const BILLING_ENTITY = 'default';
const MAX_NAME = 255;
const MAX_METADATA = 5;
const MAX_METADATA_KEY = 20;

export function listCustomers(state: LagoState, { query }: FakeRequest): FakeResponse {
  const wanted = query.get('external_id') ?? query.get('external_id[]');
  const term = query.get('search_term') ?? '';
  const found = [...state.customers.values()].filter(
    ({ external_id, name }) =>
      (wanted === null || external_id === wanted) &&
      (external_id.includes(term) || (name ?? '').includes(term)),
  );
  return page(
    'customers',
    found.map((one) => view(state, one)),
    query,
  );
}

export function showCustomer(state: LagoState, id: string): FakeResponse {
  const customer = state.customers.get(id);
  return customer === undefined ? notFound('customer') : ok({ customer: view(state, customer) });
}

/** Creates the customer, or changes the given fields. */
export function upsertCustomer(
  state: LagoState,
  input: Readonly<Record<string, unknown>>,
  at: number,
): FakeResponse {
  const id = text(input['external_id']);
  const name = text(input['name']);
  const details: Record<string, string[]> = {};
  if (id === undefined) details['external_id'] = ['value_is_mandatory'];
  if ((name ?? '').length > MAX_NAME) details['name'] = ['value_is_too_long'];
  const metadata = input['metadata'];
  if (Array.isArray(metadata) && metadata.length > MAX_METADATA) {
    details['metadata'] = ['invalid_count'];
  }
  if (Array.isArray(metadata) && !(metadata as unknown[]).every(isMetadata)) {
    details['metadata'] = ['value_is_invalid'];
  }
  const existing = state.customers.get(id ?? '');
  const currency = text(input['currency']);
  const timezone = text(input['timezone']);
  if (
    timezone !== undefined &&
    !Intl.supportedValuesOf('timeZone').includes(timezone) &&
    timezone !== 'UTC'
  ) {
    details['timezone'] = ['value_is_invalid'];
  }
  const inUse = state.subscriptions.some((one) => one.external_customer_id === id);
  const country = text(input['country']);
  if (country !== undefined && !/^[a-z]{2}$/i.test(country)) {
    details['country'] = ['not_a_valid_country_code'];
  }
  if (currency !== undefined && inUse && existing?.currency !== currency) {
    details['currency'] = ['currencies_does_not_match'];
  }
  if (Object.keys(details).length > 0) return invalid(details);
  const customer = existing ?? addCustomer(state, id ?? '', at);
  customer.name = name ?? customer.name;
  customer.email = text(input['email']) ?? customer.email;
  customer.currency = currency ?? customer.currency;
  customer.timezone = timezone ?? customer.timezone;
  for (const field of DETAILS) customer[field] = text(input[field]) ?? customer[field];
  customer.country = customer.country?.toUpperCase() ?? null;
  const term = input['net_payment_term'];
  if (typeof term === 'number') customer.net_payment_term = term;
  const grace = isObject(input['billing_configuration'])
    ? input['billing_configuration']['invoice_grace_period']
    : undefined;
  if (typeof grace === 'number') customer.invoice_grace_period = grace;
  if (Array.isArray(metadata)) customer.metadata = metadata as Customer['metadata'];
  return ok({ customer: view(state, customer) });
}

/** Returns a customer as Lago shows it (lago-api app/serializers/v1/customer_serializer.rb). */
function view(state: LagoState, { invoice_grace_period, ...customer }: Customer) {
  return {
    ...customer,
    billing_entity_code: BILLING_ENTITY,
    applicable_timezone: zoneOf(state, customer.external_id),
    billing_configuration: { invoice_grace_period },
  };
}

/** Returns the billing entity, with the defaults of customers without a setting of their own. */
export function showBillingEntity(state: LagoState, code: string): FakeResponse {
  if (code !== BILLING_ENTITY) return notFound('billing_entity');
  const { graceDays: invoice_grace_period } = state.rules;
  return ok({ billing_entity: { code, timezone: 'UTC', invoice_grace_period } });
}

export function addCustomer(state: LagoState, id: string, at: number): Customer {
  const customer: Customer = {
    lago_id: state.nextId(),
    external_id: id,
    created_at: new Date(at).toISOString(),
    name: null,
    email: null,
    currency: null,
    timezone: null,
    invoice_grace_period: null,
    net_payment_term: null,
    country: null,
    address_line1: null,
    address_line2: null,
    city: null,
    state: null,
    zipcode: null,
    tax_identification_number: null,
    metadata: [],
  };
  state.customers.set(id, customer);
  return customer;
}

export function deleteCustomer(state: LagoState, id: string, at: number): FakeResponse {
  const customer = state.customers.get(id);
  if (customer === undefined) return notFound('customer');
  state.customers.delete(id);
  for (const subscription of state.subscriptions) {
    if (subscription.external_customer_id !== id || subscription.status !== 'active') continue;
    terminate(state, subscription, at);
  }
  return ok({ customer: view(state, customer) });
}

function isMetadata(value: unknown): boolean {
  return isObject(value) && (text(value['key']) ?? '').length <= MAX_METADATA_KEY;
}
