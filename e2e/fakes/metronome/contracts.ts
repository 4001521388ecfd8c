import type { FakeResponse } from '../fake-server.ts';
import { instant, isObject, objects, ok, refused, text } from './answers.ts';
import type { Contract, MetronomeState } from './state.ts';

const HOUR_MS = 3_600_000;
const MAX_KEY = 128;
const UNKNOWN = 'unknown';

/** Wants the customer's own id, no alias; a uniqueness key is spent for ever. */
export function createContract(
  state: MetronomeState,
  input: Readonly<Record<string, unknown>>,
): FakeResponse {
  const customer = state.customers.find(({ id }) => id === input['customer_id']);
  if (customer === undefined) return refused(400, 'customer_id must be the id of a customer');
  const from = instant(input['starting_at']);
  if (from === undefined || from % HOUR_MS !== 0) {
    return refused(400, 'starting_at must be on an hour boundary');
  }
  const reference = input['rate_card_id'] ?? input['rate_card_alias'];
  const card = state.rateCards.find(
    ({ id, aliases }) => id === reference || aliases.some(({ name }) => name === reference),
  );
  if (card === undefined) return refused(404, 'Rate card not found');
  const provider = providerOf(state, customer.id, input['billing_provider_configuration']);
  if (provider === UNKNOWN) {
    return refused(400, 'billing_provider_configuration is not one of the customer');
  }
  const key = text(input['uniqueness_key']);
  if ((key ?? '').length > MAX_KEY) return refused(400, 'uniqueness_key is too long');
  if (key !== undefined && state.spentKeys.has(key)) {
    return refused(409, 'uniqueness_key has already been used');
  }
  const end = instant(input['ending_before']);
  const contract: Contract = {
    id: state.nextId(),
    customer_id: customer.id,
    name: text(input['name']),
    rate_card_id: card.id,
    starting_at: new Date(from).toISOString(),
    uniqueness_key: key,
    usage_filter: isObject(input['usage_filter']) ? [input['usage_filter']] : [],
    ...(end !== undefined && { ending_before: new Date(end).toISOString() }),
    ...(provider !== undefined && { billingProviderId: provider }),
  };
  if (key !== undefined) state.spentKeys.add(key);
  state.contracts.push(contract);
  return ok({ id: contract.id });
}

export function listContracts(
  state: MetronomeState,
  input: Readonly<Record<string, unknown>>,
): FakeResponse {
  const { customer_id, include_archived } = input;
  if (!state.customers.some(({ id }) => id === customer_id)) {
    return { status: 400, body: { message: 'Customer not found', code: 'CustomerNotFound' } };
  }
  const covering = instant(input['covering_date']);
  const found = state.contracts.filter(
    (contract) =>
      contract.customer_id === customer_id &&
      (include_archived === true || contract.archived_at === undefined) &&
      (covering === undefined || covers(contract, covering)),
  );
  return ok(found.map((contract) => show(state, contract)));
}

export function setContractEnd(
  state: MetronomeState,
  input: Readonly<Record<string, unknown>>,
): FakeResponse {
  const contract = contractOf(state, input);
  if (contract === undefined) return refused(404, 'Contract not found');
  if (input['ending_before'] === undefined) {
    delete contract.ending_before;
    return ok({ id: contract.id });
  }
  const end = instant(input['ending_before']);
  if (end === undefined || end % HOUR_MS !== 0) {
    return refused(400, 'ending_before must be on an hour boundary');
  }
  if (end <= Date.parse(contract.starting_at)) {
    return refused(400, 'ending_before must be after starting_at');
  }
  contract.ending_before = new Date(end).toISOString();
  return ok({ id: contract.id });
}

export function editContract(
  state: MetronomeState,
  input: Readonly<Record<string, unknown>>,
): FakeResponse {
  const contract = contractOf(state, input);
  if (contract === undefined) return refused(404, 'Contract not found');
  const update = input['add_billing_provider_configuration_update'];
  if (isObject(update)) {
    const wanted = update['billing_provider_configuration'];
    const provider = providerOf(state, contract.customer_id, wanted);
    if (provider === undefined || provider === UNKNOWN) {
      return refused(400, 'billing_provider_configuration is not one of the customer');
    }
    contract.billingProviderId = provider;
  }
  return ok({ id: contract.id });
}

export function archiveContract(
  state: MetronomeState,
  input: Readonly<Record<string, unknown>>,
  at: number,
): FakeResponse {
  const contract = contractOf(state, input);
  if (contract === undefined) return refused(404, 'Contract not found');
  contract.archived_at ??= new Date(at).toISOString();
  return ok({ id: contract.id });
}

/** Whether a contract bills usage of a moment, milliseconds since the epoch. */
export function covers({ starting_at, ending_before }: Contract, at: number): boolean {
  const end = ending_before === undefined ? Number.POSITIVE_INFINITY : Date.parse(ending_before);
  return Date.parse(starting_at) <= at && at < end;
}

function contractOf(state: MetronomeState, input: Readonly<Record<string, unknown>>) {
  return state.contracts.find(
    ({ id, customer_id }) => id === input['contract_id'] && customer_id === input['customer_id'],
  );
}

function providerOf(state: MetronomeState, customerId: string, input: unknown): string | undefined {
  if (!isObject(input)) return undefined;
  const own = state.billingProviders.filter(
    ({ customer_id, archived_at }) => customer_id === customerId && archived_at === undefined,
  );
  const id = text(input['billing_provider_configuration_id']);
  const found = own.find((provider) =>
    id === undefined ? provider.billing_provider === input['billing_provider'] : provider.id === id,
  );
  return found?.id ?? UNKNOWN;
}

function show(state: MetronomeState, { billingProviderId, ...contract }: Contract) {
  const provider = state.billingProviders.find(({ id }) => id === billingProviderId);
  return {
    ...contract,
    created_at: contract.starting_at,
    created_by: 'operator',
    commits: [],
    overrides: [],
    scheduled_charges: [],
    transitions: [],
    usage_filter: objects(contract.usage_filter),
    usage_statement_schedule: { frequency: 'MONTHLY', billing_anchor_date: contract.starting_at },
    ...(provider !== undefined && { customer_billing_provider_configuration: provider }),
  };
}
