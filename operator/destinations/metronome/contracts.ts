import { createHash } from 'node:crypto';
import { isRecord } from '../../model/is-record.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { ApiFailure, ApiRefusal } from '../json-api/answer.ts';
import { type JsonObject, objectsOf, textOf } from '../json.ts';
import { type Contract, overlapsOf, planContract, twinsOf } from './contract-plan.ts';
import type { MetronomeClient } from './metronome-client.ts';

/** The contract that a customer is to have. */
export interface WantedContract {
  readonly customerId: string;
  /** For whoever reads it at Metronome. */
  readonly name: string;
  readonly rateCardId: string;
  /** Milliseconds since the epoch. */
  readonly billableFrom: number;
  /** The customer's configuration of a billing provider; undefined where invoices stay at Metronome. */
  readonly billingProviderId: string | undefined;
}

/** `unchanged`: the contracts are as they should be, and were left alone. */
export type ArrangeOutcome = ContractStep | { readonly kind: 'unchanged' };

/** Brings a customer's contracts into the form that {@link planContract} gives. */
export function createArrangeContracts(
  name: string,
  client: MetronomeClient,
  clock: Clock,
  logger: Logger,
) {
  const create = async (
    wanted: WantedContract,
    from: number,
    signal: AbortSignal,
  ): Promise<ContractStep> => {
    const created = await createContract(client, { ...wanted, from }, signal);
    if (created.kind === 'done') {
      const start = new Date(from).toISOString();
      logger.info(`[${name}] contract for ${wanted.name} on ${wanted.rateCardId} from ${start}`);
    }
    return created;
  };

  const endOverlaps = async (
    customerId: string,
    contracts: readonly Contract[],
    signal: AbortSignal,
  ): Promise<ArrangeOutcome> => {
    const overlaps = overlapsOf(contracts);
    if (overlaps.length === 0) return { kind: 'unchanged' };
    for (const { contract, at } of overlaps) {
      const ended = await setContractEnd(client, customerId, contract.id, at, signal);
      if (ended.kind !== 'done') return ended;
      const end = new Date(at).toISOString();
      logger.warn(`[${name}] contract ${contract.id} ends at ${end}, where another one begins`);
    }
    return { kind: 'done' };
  };

  /** A contract from the time before invoices went to a billing provider. */
  const link = async (
    { customerId, billingProviderId }: WantedContract,
    contract: Contract,
    signal: AbortSignal,
  ): Promise<ArrangeOutcome> => {
    if (billingProviderId === undefined || !contract.isOurs || contract.isLinked) {
      return { kind: 'unchanged' };
    }
    return linkContract(client, customerId, contract.id, billingProviderId, signal);
  };

  const carryOut = async (
    wanted: WantedContract,
    contracts: readonly Contract[],
    signal: AbortSignal,
  ): Promise<ArrangeOutcome> => {
    const { customerId, rateCardId, billableFrom } = wanted;
    const plan = planContract(contracts, rateCardId, billableFrom, clock.now());
    if (plan.kind === 'create') return create(wanted, plan.from, signal);
    const { contract } = plan;
    if (plan.kind === 'keep') return link(wanted, contract, signal);
    if (plan.kind === 'reopen') {
      const opened = await setContractEnd(client, customerId, contract.id, undefined, signal);
      if (opened.kind !== 'done') return opened;
      const linked = await link(wanted, contract, signal);
      return linked.kind === 'unchanged' ? opened : linked;
    }
    if (plan.kind === 'hand-over') {
      const ended = await setContractEnd(client, customerId, contract.id, plan.at, signal);
      return ended.kind === 'done' ? create(wanted, plan.at, signal) : ended;
    }
    logger.warn(
      `[${name}] ${wanted.name}: contract ${contract.id} on another rate card was made in Metronome, and is left as it is`,
    );
    return { kind: 'unchanged' };
  };

  return async (
    wanted: WantedContract,
    contracts: readonly Contract[],
    signal: AbortSignal,
  ): Promise<ArrangeOutcome> => {
    for (const [ours, other] of twinsOf(contracts)) {
      logger.error(
        `[${name}] ${wanted.name} is billed twice: contracts ${ours.id} and ${other.id} begin in the same hour: archive one of them in Metronome`,
      );
    }
    const tidied = await endOverlaps(wanted.customerId, contracts, signal);
    if (tidied.kind !== 'done' && tidied.kind !== 'unchanged') return tidied;
    const outcome = await carryOut(wanted, contracts, signal);
    return outcome.kind === 'unchanged' ? tidied : outcome;
  };
}

/** The beginning of the uniqueness key of every contract made here. */
const OUR_KEY = 'meterfeed:';
/** Keys that were spent by contracts that are not listed any more; more than this is not an accident. */
const MAX_GENERATIONS = 20;

export type ContractsOutcome =
  | { readonly kind: 'contracts'; readonly contracts: readonly Contract[] }
  | ApiRefusal
  | ApiFailure;

export type ContractStep = { readonly kind: 'done' } | ApiRefusal | ApiFailure;

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
  if (!isRecord(answer.value)) return { kind: 'retry', reason: 'the answer has no contracts' };
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
    const made = objectsOf(listed.body, 'data').some(
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
    isLinked: isRecord(object['customer_billing_provider_configuration']) || schedule.length > 0,
  };
}
