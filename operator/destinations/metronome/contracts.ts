import { createHash } from 'node:crypto';
import { isObject, type JsonObject, objectsOf, textOf } from '../json.ts';
import type { Contract } from './contract-plan.ts';
import type { MetronomeClient, MetronomeRefusal, MetronomeTrouble } from './metronome-client.ts';

/** The beginning of the uniqueness key of every contract made here. */
const OUR_KEY = 'meterfeed:';
/** Keys that were spent by contracts that are not listed any more; more than this is not an accident. */
const MAX_GENERATIONS = 20;

export type ContractsOutcome =
  | { readonly kind: 'contracts'; readonly contracts: readonly Contract[] }
  | MetronomeRefusal
  | MetronomeTrouble;

export type ContractStep = { readonly kind: 'done' } | MetronomeRefusal | MetronomeTrouble;

export interface NewContract {
  readonly customerId: string;
  readonly name: string;
  readonly rateCardId: string;
  /** Milliseconds since the epoch, a full hour. */
  readonly from: number;
  /** The customer's configuration of a billing provider that invoices go to. */
  readonly billingProviderId: string | undefined;
}

/**
 * The contracts of a customer that bill its usage: those that are archived bill nothing any more, and
 * those with a usage filter bill a part that somebody else has set apart.
 */
export async function listContracts(
  client: MetronomeClient,
  customerId: string,
  signal: AbortSignal,
): Promise<ContractsOutcome> {
  const answer = await client.post('/v2/contracts/list', { customer_id: customerId }, signal);
  if (answer.kind !== 'ok') return answer;
  if (!isObject(answer.body)) return { kind: 'retry', reason: 'the answer has no contracts' };
  const contracts = objectsOf(answer.body, 'data')
    .filter((item) => textOf(item, 'archived_at') === undefined)
    .filter((item) => objectsOf(item, 'usage_filter').length === 0)
    .map(readContract);
  return { kind: 'contracts', contracts };
}

/**
 * Creates a contract. Its uniqueness key is made of customer, rate card and start, so that a lost answer
 * leads to no second one; a key is spent for ever, by archived contracts too, so the next generation of
 * it is taken where none of the contracts that are there has it.
 */
export async function createContract(
  client: MetronomeClient,
  contract: NewContract,
  signal: AbortSignal,
): Promise<ContractStep> {
  const { customerId, name, rateCardId, from, billingProviderId } = contract;
  for (let generation = 0; generation < MAX_GENERATIONS; generation += 1) {
    const uniqueness_key = uniquenessKey(contract, generation);
    const body = {
      customer_id: customerId,
      name,
      rate_card_id: rateCardId,
      starting_at: new Date(from).toISOString(),
      uniqueness_key,
      usage_statement_schedule: { frequency: 'MONTHLY', day: 'FIRST_OF_MONTH' },
      ...(billingProviderId !== undefined && {
        billing_provider_configuration: { billing_provider_configuration_id: billingProviderId },
      }),
    };
    const answer = await client.create('/v1/contracts/create', body, signal);
    if (answer.kind === 'ok') return { kind: 'done' };
    if (answer.kind !== 'refused' || answer.status !== 409) return answer;
    const listed = await client.post('/v2/contracts/list', { customer_id: customerId }, signal);
    if (listed.kind !== 'ok') return listed;
    const made = objectsOf(isObject(listed.body) ? listed.body : {}, 'data').some(
      (item) =>
        textOf(item, 'uniqueness_key') === uniqueness_key &&
        textOf(item, 'archived_at') === undefined,
    );
    // An answer was lost, and the contract is there.
    if (made) return { kind: 'done' };
  }
  return { kind: 'retry', reason: `no uniqueness key is left for a contract on ${rateCardId}` };
}

/** Ends a contract, or lets it go on without an end. `at` in milliseconds since the epoch, a full hour. */
export async function setContractEnd(
  client: MetronomeClient,
  customerId: string,
  contractId: string,
  at: number | undefined,
  signal: AbortSignal,
): Promise<ContractStep> {
  const body = {
    customer_id: customerId,
    contract_id: contractId,
    ...(at !== undefined && { ending_before: new Date(at).toISOString() }),
  };
  const answer = await client.post('/v1/contracts/updateEndDate', body, signal);
  return answer.kind === 'ok' ? { kind: 'done' } : answer;
}

/** Has a contract's invoices go to a billing provider, from the period that is running. */
export async function linkContract(
  client: MetronomeClient,
  customerId: string,
  contractId: string,
  billingProviderId: string,
  signal: AbortSignal,
): Promise<ContractStep> {
  const body = {
    customer_id: customerId,
    contract_id: contractId,
    add_billing_provider_configuration_update: {
      billing_provider_configuration: { billing_provider_configuration_id: billingProviderId },
      schedule: { effective_at: 'START_OF_CURRENT_PERIOD' },
    },
  };
  const answer = await client.create('/v2/contracts/edit', body, signal);
  return answer.kind === 'ok' ? { kind: 'done' } : answer;
}

function uniquenessKey({ customerId, rateCardId, from }: NewContract, generation: number): string {
  const identity = [customerId, rateCardId, from].join('\0');
  const digest = createHash('sha256').update(identity).digest('hex').slice(0, 32);
  const start = new Date(from).toISOString().slice(0, 13);
  return `${OUR_KEY}${start}:${digest}${generation === 0 ? '' : `#${generation}`}`;
}

function readContract(object: JsonObject): Contract {
  const schedule = objectsOf(object, 'billing_provider_configuration_schedule');
  return {
    id: textOf(object, 'id') ?? '',
    rateCardId: textOf(object, 'rate_card_id'),
    from: Date.parse(textOf(object, 'starting_at') ?? '') || 0,
    to: Date.parse(textOf(object, 'ending_before') ?? '') || Number.POSITIVE_INFINITY,
    isOurs: textOf(object, 'uniqueness_key')?.startsWith(OUR_KEY) === true,
    isLinked: isObject(object['customer_billing_provider_configuration']) || schedule.length > 0,
  };
}
