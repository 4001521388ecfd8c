import type { FakeRequest, FakeResponse } from '../fake-server.ts';
import { isObject, objects, ok, page, refused, text, texts } from './answers.ts';
import type { BillingProvider, Customer, MetronomeState } from './state.ts';
import { voidInvoices } from './statements.ts';

const MAX_NAME = 160;
const MAX_ALIAS = 128;

/** Creates a customer. An alias of another one, even an archived one, is a conflict. */
export function createCustomer(
  state: MetronomeState,
  input: Readonly<Record<string, unknown>>,
  at: number,
): FakeResponse {
  const name = text(input['name']);
  if (name === undefined) return refused(400, 'name is required');
  const aliases = texts(input['ingest_aliases']);
  const problem = aliasProblem(state, aliases, undefined);
  if (problem !== undefined) return problem;
  const customer: Customer = {
    id: state.nextId(),
    name: name.slice(0, MAX_NAME),
    ingest_aliases: aliases,
    created_at: new Date(at).toISOString(),
  };
  state.customers.push(customer);
  for (const configuration of objects(input['customer_billing_provider_configurations'])) {
    addProvider(state, customer.id, configuration);
  }
  return ok(show(customer));
}

export function listCustomers(state: MetronomeState, { query }: FakeRequest): FakeResponse {
  const alias = query.get('ingest_alias');
  const archived = query.get('only_archived') === 'true';
  const found = state.customers.filter(
    ({ ingest_aliases, archived_at }) =>
      (alias === null || ingest_aliases.includes(alias)) &&
      (archived_at !== undefined) === archived,
  );
  return page(found.map(show), query);
}

export function showCustomer(state: MetronomeState, id: string): FakeResponse {
  const customer = state.customers.find((one) => one.id === id);
  return customer === undefined ? refused(404, 'Customer not found') : ok(show(customer));
}

export function archiveCustomer(
  state: MetronomeState,
  input: Readonly<Record<string, unknown>>,
  at: number,
): FakeResponse {
  const customer = state.customers.find(({ id }) => id === input['id']);
  if (customer === undefined) return refused(404, 'Customer not found');
  const archived_at = new Date(at).toISOString();
  customer.archived_at ??= archived_at;
  for (const contract of state.contracts) {
    if (contract.customer_id === customer.id) contract.archived_at ??= archived_at;
  }
  voidInvoices(state, ({ customer_id }) => customer_id === customer.id);
  return ok({ id: customer.id });
}

/** Replaces all aliases. */
export function setIngestAliases(
  state: MetronomeState,
  id: string,
  input: Readonly<Record<string, unknown>>,
): FakeResponse {
  const customer = state.customers.find((one) => one.id === id);
  if (customer === undefined) return refused(404, 'Customer not found');
  const aliases = texts(input['ingest_aliases']);
  const problem = aliasProblem(state, aliases, customer);
  if (problem !== undefined) return problem;
  customer.ingest_aliases = aliases;
  return { status: 200, body: {} };
}

export function setName(
  state: MetronomeState,
  id: string,
  input: Readonly<Record<string, unknown>>,
): FakeResponse {
  const customer = state.customers.find((one) => one.id === id);
  const name = text(input['name']);
  if (customer === undefined) return refused(404, 'Customer not found');
  if (name === undefined) return refused(400, 'name is required');
  customer.name = name.slice(0, MAX_NAME);
  return ok(show(customer));
}

export function setBillingProviders(
  state: MetronomeState,
  input: Readonly<Record<string, unknown>>,
): FakeResponse {
  const made: BillingProvider[] = [];
  for (const item of objects(input['data'])) {
    const customer = state.customers.find(({ id }) => id === item['customer_id']);
    if (customer === undefined) return refused(400, 'customer_id is not a customer');
    const configuration = isObject(item['configuration']) ? item['configuration'] : {};
    if (text(configuration['stripe_customer_id']) === undefined) {
      return refused(400, 'configuration.stripe_customer_id is required');
    }
    made.push(addProvider(state, customer.id, item));
  }
  return ok(made);
}

export function getBillingProviders(
  state: MetronomeState,
  input: Readonly<Record<string, unknown>>,
): FakeResponse {
  const found = state.billingProviders.filter(
    ({ customer_id }) => customer_id === input['customer_id'],
  );
  return ok(
    found.map((provider) => ({
      ...provider,
      archived_at: provider.archived_at ?? null,
      delivery_method_id: '5b9e3072-415b-4842-94f0-0b6700c8b6be',
      delivery_method_configuration: {},
    })),
  );
}

function addProvider(
  state: MetronomeState,
  customer_id: string,
  input: Readonly<Record<string, unknown>>,
): BillingProvider {
  const provider = {
    id: state.nextId(),
    customer_id,
    billing_provider: text(input['billing_provider']) ?? '',
    delivery_method: text(input['delivery_method']) ?? '',
    configuration: isObject(input['configuration']) ? input['configuration'] : {},
  };
  state.billingProviders.push(provider);
  return provider;
}

function aliasProblem(
  state: MetronomeState,
  aliases: readonly string[],
  own: Customer | undefined,
): FakeResponse | undefined {
  if (aliases.some((alias) => alias === '' || alias.length > MAX_ALIAS)) {
    return refused(400, 'ingest aliases have 1 to 128 characters');
  }
  const taken = aliases.find((alias) =>
    state.customers.some((one) => one !== own && one.ingest_aliases.includes(alias)),
  );
  return taken === undefined
    ? undefined
    : refused(409, `ingest alias ${taken} is already in use by another customer`);
}

function show(customer: Customer) {
  return {
    ...customer,
    external_id: customer.ingest_aliases[0] ?? customer.id,
    custom_fields: {},
    customer_config: { salesforce_account_id: null },
    updated_at: customer.created_at,
    archived_at: customer.archived_at ?? null,
  };
}
