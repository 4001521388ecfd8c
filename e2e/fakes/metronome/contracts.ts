import type { FakeResponse } from '../fake-server.ts';
import { instant, isObject, objects, ok, refused, text } from './answers.ts';
import { readBalances } from './balances.ts';
import { type Contract, covers, type MetronomeState, type StatementSchedule } from './state.ts';
import { voidInvoices } from './statements.ts';

const HOUR_MS = 3_600_000;
const MAX_KEY = 128;
const UNKNOWN = 'unknown';
/** Any first of a month. */
const FIRST_OF_MONTH = Date.UTC(2020, 0, 1);

/**
 * Creates a contract. It requires the customer's own id, no alias; a uniqueness key is used up for
 * ever.
 */
export function createContract(
  state: MetronomeState,
  input: Readonly<Record<string, unknown>>,
  at: number,
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
  const days = input['net_payment_terms_days'];
  const contract: Contract = {
    id: state.nextId(),
    customer_id: customer.id,
    name: text(input['name']),
    rate_card_id: card.id,
    starting_at: new Date(from).toISOString(),
    uniqueness_key: key,
    usage_filter: isObject(input['usage_filter']) ? [input['usage_filter']] : [],
    schedule: readSchedule(input['usage_statement_schedule'], from),
    createdAt: at,
    balances: readBalances(state, input['commits'], input['credits'], at),
    ...(end !== undefined && { ending_before: new Date(end).toISOString() }),
    billingProviderId: provider,
    ...(typeof days === 'number' && { net_payment_terms_days: days }),
  };
  if (key !== undefined) state.spentKeys.add(key);
  state.contracts.push(contract);
  return ok({ id: contract.id });
}

/** Reads the schedule; calendar months by default. */
function readSchedule(input: unknown, from: number): StatementSchedule {
  const given = isObject(input) ? input : {};
  const frequency = text(given['frequency'])?.toUpperCase();
  const custom = instant(given['billing_anchor_date']);
  const isOfContract = text(given['day'])?.toUpperCase() === 'CONTRACT_START';
  return {
    frequency:
      frequency === 'WEEKLY' || frequency === 'QUARTERLY' || frequency === 'ANNUAL'
        ? frequency
        : 'MONTHLY',
    anchor: custom ?? (isOfContract ? from : FIRST_OF_MONTH),
  };
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
  const finalUntil = contract.finalUntil ?? 0;
  // This is allowed by default, and the final invoice does not change.
  if (end < finalUntil && input['allow_ending_before_finalized_invoice'] === false) {
    return refused(400, 'ending_before is before the end of a finalized invoice');
  }
  contract.ending_before = new Date(end).toISOString();
  return ok({ id: contract.id });
}

export function editContract(
  state: MetronomeState,
  input: Readonly<Record<string, unknown>>,
  at: number,
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
  const days = input['update_net_payment_terms_days'];
  if (typeof days === 'number') contract.net_payment_terms_days = days;
  const added = readBalances(state, input['add_commits'], input['add_credits'], at);
  contract.balances = [...contract.balances, ...added];
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
  if (input['void_invoices'] === true) {
    voidInvoices(state, ({ contract_id }) => contract_id === contract.id);
  }
  return ok({ id: contract.id });
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

function show(state: MetronomeState, contract: Contract) {
  const {
    billingProviderId,
    schedule,
    createdAt,
    finalUntil: _until,
    balances,
    ...shown
  } = contract;
  const provider = state.billingProviders.find(({ id }) => id === billingProviderId);
  return {
    ...shown,
    created_at: new Date(createdAt).toISOString(),
    created_by: 'operator',
    commits: balances.filter(({ type }) => type === 'PREPAID').map(showBalance),
    credits: balances.filter(({ type }) => type === 'CREDIT').map(showBalance),
    overrides: [],
    scheduled_charges: [],
    transitions: [],
    usage_filter: objects(contract.usage_filter),
    usage_statement_schedule: {
      frequency: schedule.frequency,
      billing_anchor_date: new Date(schedule.anchor).toISOString(),
    },
    ...(provider !== undefined && { customer_billing_provider_configuration: provider }),
  };
}

function showBalance({ id, type }: Contract['balances'][number]) {
  return { id, type };
}
