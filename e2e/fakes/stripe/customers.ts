import type { FakeResponse } from '../fake-server.ts';
import { invalid, missing, ok } from './answers.ts';
import { cancelNow } from './cycles.ts';
import { type Form, nested, text, texts } from './form.ts';
import { isCreatedWithin, page, PAGING, unknownParameter } from './lists.ts';
import { mergeMetadata, metadataProblem } from './metadata.ts';
import { type Customer, nextId, type StripeState } from './state.ts';

const FIELDS = ['name', 'email', 'description', 'metadata', 'address'];
const ADDRESS = ['line1', 'line2', 'city', 'state', 'postal_code', 'country'] as const;

export function createCustomer(state: StripeState, form: Form, at: number): FakeResponse {
  const metadata = texts(form, 'metadata');
  const problem = problemOf(form, metadata);
  if (problem !== undefined) return problem;
  const customer: Customer = {
    id: nextId(state, 'cus'),
    created: Math.floor(at / 1000),
    name: text(form, 'name') ?? null,
    email: text(form, 'email') ?? null,
    description: text(form, 'description') ?? null,
    metadata,
    address: addressOf(form) ?? null,
    taxIds: [],
    deleted: false,
  };
  state.customers.set(customer.id, customer);
  return ok(showCustomer(customer));
}

export function updateCustomer(state: StripeState, id: string, form: Form): FakeResponse {
  const customer = state.customers.get(id);
  if (customer === undefined || customer.deleted) return missing('customer', id);
  const metadata = texts(form, 'metadata');
  const problem = problemOf(form, metadata);
  if (problem !== undefined) return problem;
  customer.name = text(form, 'name') ?? customer.name;
  customer.email = text(form, 'email') ?? customer.email;
  customer.address = addressOf(form) ?? customer.address;
  customer.metadata = mergeMetadata(customer.metadata, metadata);
  return ok(showCustomer(customer));
}

export function showOneCustomer(state: StripeState, id: string): FakeResponse {
  const customer = state.customers.get(id);
  return customer === undefined ? missing('customer', id) : ok(showCustomer(customer));
}

export function deleteCustomer(state: StripeState, id: string, at: number): FakeResponse {
  const customer = state.customers.get(id);
  if (customer === undefined || customer.deleted) return missing('customer', id);
  customer.deleted = true;
  for (const subscription of state.subscriptions.values()) {
    if (subscription.customer !== id || subscription.status === 'canceled') continue;
    cancelNow(state, subscription, false, Math.floor(at / 1000));
  }
  return ok(showCustomer(customer));
}

export function listCustomers(state: StripeState, query: Form): FakeResponse {
  const unknown = unknownParameter(query, ['email', 'created', ...PAGING]);
  if (unknown !== undefined) return unknown;
  const email = text(query, 'email');
  const found = [...state.customers.values()].filter(
    (customer) =>
      !customer.deleted &&
      (email === undefined || customer.email === email) &&
      isCreatedWithin(query, customer.created),
  );
  return page('/v1/customers', query, found, showCustomer);
}

/** Finds customers that were created before the last update of the search index. */
export function searchCustomers(
  state: StripeState,
  query: Form,
  indexedUntil: number,
): FakeResponse {
  const unknown = unknownParameter(query, ['query', 'limit', 'page']);
  if (unknown !== undefined) return unknown;
  const match = /^metadata\['((?:[^'\\]|\\.)+)'\]:'((?:[^'\\]|\\.)*)'$/.exec(
    text(query, 'query') ?? '',
  );
  if (match === null) return invalid('We were unable to parse your search query');
  const [key = '', value = ''] = match.slice(1).map((part) => part.replace(/\\(.)/g, '$1'));
  const data = [...state.customers.values()]
    .filter(({ deleted, created }) => !deleted && created * 1000 <= indexedUntil)
    .filter(({ metadata }) => metadata[key]?.toLowerCase() === value.toLowerCase())
    .map(showCustomer);
  const object = 'search_result';
  return ok({ object, url: '/v1/customers/search', data, has_more: false, next_page: null });
}

function problemOf(form: Form, metadata: Record<string, string>): FakeResponse | undefined {
  return (
    unknownParameter(form, FIELDS) ??
    unknownParameter(nested(form, 'address'), ADDRESS) ??
    metadataProblem(metadata)
  );
}

/** Reads an address, which replaces the complete previous one. */
function addressOf(form: Form): Customer['address'] | undefined {
  const given = texts(form, 'address');
  if (Object.keys(given).length === 0) return undefined;
  return Object.fromEntries(ADDRESS.map((field) => [field, given[field] ?? null]));
}

function showCustomer({ deleted, taxIds: _taxIds, ...customer }: Customer): unknown {
  if (deleted) return { id: customer.id, object: 'customer', deleted: true };
  return { ...customer, object: 'customer', livemode: false };
}
