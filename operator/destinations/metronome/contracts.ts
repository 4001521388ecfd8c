import { createHash } from 'node:crypto';
import { isRecord } from '../../model/is-record.ts';
import type { PlanChange } from '../../model/tenant.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { ApiAnswer, ApiProblem } from '../json-api/answer.ts';
import { type JsonObject, objectOf, objectsOf, textOf } from '../json.ts';
import { type Contract, hourAtOrBefore, overlapsOf, planContract } from './contract-plan.ts';
import { invoicedUntil } from './invoices.ts';
import type { MetronomeClient } from './metronome-client.ts';

/** The prefix of the uniqueness key of every contract that the operator makes. */
const OUR_KEY = 'meterfeed:';
/** Bound of uniqueness keys used up by contracts that are no longer listed. */
const MAX_GENERATIONS = 20;
/** Fields that only people set on a contract. */
const TERMS = [
  'commits',
  'credits',
  'recurring_commits',
  'recurring_credits',
  'scheduled_charges',
  'subscriptions',
  'overrides',
  'discounts',
];
const UNCHANGED = { kind: 'unchanged' } as const;

/** The contracts that bill a customer's usage, and the ids of archived ones. */
export interface CustomerContracts {
  readonly contracts: readonly Contract[];
  readonly archived: readonly string[];
}

export type ContractsOutcome = ({ readonly kind: 'contracts' } & CustomerContracts) | ApiProblem;

export type ContractStep = { readonly kind: 'done' } | ApiProblem;
/** `unchanged`: the contracts were right already. */
export type ArrangeOutcome = ContractStep | { readonly kind: 'unchanged' };

/** The contract that a customer should have. */
export interface WantedContract {
  readonly customerId: string;
  /** The name shown at Metronome. */
  readonly name: string;
  readonly rateCardId: string;
  /** Milliseconds since the epoch. */
  readonly billableFrom: number;
  /** Configuration of the customer's billing provider; undefined if invoices stay at Metronome. */
  readonly billingProviderId: string | undefined;
  /** When it replaces a contract on another rate card. */
  readonly change: PlanChange;
  /** Days from an invoice's date until it is due; undefined without a setting. */
  readonly netTermsDays: number | undefined;
}

/** Reads and changes customers' contracts (docs/how-to/destinations/metronome.md#contracts). */
export class MetronomeContracts {
  readonly #name: string;
  readonly #client: MetronomeClient;
  readonly #clock: Clock;
  readonly #logger: Logger;

  constructor(name: string, client: MetronomeClient, clock: Clock, logger: Logger) {
    this.#name = name;
    this.#client = client;
    this.#clock = clock;
    this.#logger = logger;
  }

  /**
   * Lists the contracts of a customer. Archived ones bill nothing. Contracts with a usage filter
   * are left out: they bill a part that somebody else separated.
   */
  async list(customerId: string, signal: AbortSignal): Promise<ContractsOutcome> {
    const answer = await this.#listAll(customerId, signal);
    if (answer.kind !== 'ok') return answer;
    if (!isRecord(answer.value)) return { kind: 'retry', reason: 'the answer has no contracts' };
    const all = objectsOf(answer.body, 'data').filter(
      (item) => objectsOf(item, 'usage_filter').length === 0,
    );
    const isArchived = (item: JsonObject): boolean => textOf(item, 'archived_at') !== undefined;
    return {
      kind: 'contracts',
      // Sort by id, so that two answers can be compared.
      contracts: all
        .filter((item) => !isArchived(item))
        .map(readContract)
        .toSorted((a, b) => (a.id < b.id ? -1 : 1)),
      archived: all.filter(isArchived).flatMap((item) => textOf(item, 'id') ?? []),
    };
  }

  /** Changes a customer's contracts as {@link planContract} plans. */
  async arrange(
    wanted: WantedContract,
    found: CustomerContracts,
    signal: AbortSignal,
  ): Promise<ArrangeOutcome> {
    const { contracts, ...tidied } = await this.#endOverlaps(wanted, found.contracts, signal);
    if (tidied.kind !== 'done' && tidied.kind !== 'unchanged') return tidied;
    const gone = found.contracts.filter(({ id }) => contracts.every((one) => one.id !== id));
    const archived = [...found.archived, ...gone.map(({ id }) => id)];
    const outcome = await this.#carryOut(wanted, { archived, contracts }, signal);
    return outcome.kind === 'unchanged' ? tidied : outcome;
  }

  /** Sets or removes the end of a contract. `at` is a full hour, milliseconds since the epoch. */
  async setEnd(
    customerId: string,
    contractId: string,
    at: number | undefined,
    signal: AbortSignal,
  ): Promise<ContractStep> {
    const ending_before = at === undefined ? undefined : new Date(at).toISOString();
    const body = {
      customer_id: customerId,
      contract_id: contractId,
      ending_before,
    };
    return stepOf(await this.#client.post('/v1/contracts/updateEndDate', body, signal));
  }

  /** Archives a contract. Its drafts disappear, and final invoices stay. */
  async archive(
    customerId: string,
    contractId: string,
    signal: AbortSignal,
  ): Promise<ContractStep> {
    const body = { customer_id: customerId, contract_id: contractId, void_invoices: false };
    return stepOf(await this.#client.post('/v1/contracts/archive', body, signal));
  }

  async #carryOut(
    wanted: WantedContract,
    found: CustomerContracts,
    signal: AbortSignal,
  ): Promise<ArrangeOutcome> {
    const { customerId, rateCardId, billableFrom, change } = wanted;
    const { contracts, archived } = found;
    const now = this.#clock.now();
    const plan = planContract(contracts, rateCardId, billableFrom, now, change);
    if (plan.kind === 'create') {
      // Final invoices of archived contracts stay, so another contract must not bill their usage
      // again.
      const billed = await invoicedUntil(this.#client, customerId, archived, signal);
      if (billed.kind !== 'until') return billed;
      return this.#create(wanted, Math.max(plan.from, hourAtOrBefore(billed.until)), signal);
    }
    const { contract } = plan;
    if (plan.kind === 'keep') return this.#update(wanted, contract, signal);
    if (plan.kind === 'reopen') {
      const opened = await this.setEnd(customerId, contract.id, undefined, signal);
      if (opened.kind !== 'done') return opened;
      const updated = await this.#update(wanted, contract, signal);
      return updated.kind === 'unchanged' ? opened : updated;
    }
    if (plan.kind === 'undo') {
      const undone = await this.archive(customerId, plan.next.id, signal);
      if (undone.kind !== 'done') return undone;
      const opened = await this.setEnd(customerId, contract.id, undefined, signal);
      if (opened.kind !== 'done' || contract.rateCardId === rateCardId) return opened;
      const left = contracts.filter(({ id }) => id !== plan.next.id && id !== contract.id);
      const goesOn = { ...contract, to: Number.POSITIVE_INFINITY };
      return this.#carryOut(wanted, { archived, contracts: [...left, goesOn] }, signal);
    }
    if (plan.kind === 'hand-over') {
      const ended = await this.setEnd(customerId, contract.id, plan.at, signal);
      return ended.kind === 'done' ? this.#create(wanted, plan.at, signal) : ended;
    }
    this.#logger.warn(
      `[${this.#name}] ${wanted.name}: contract ${contract.id} on another rate card was made in Metronome, and is left as it is`,
    );
    return UNCHANGED;
  }

  /** Ends or archives our contracts that overlap with others, and returns the remaining ones. */
  async #endOverlaps(
    { customerId, name }: WantedContract,
    contracts: readonly Contract[],
    signal: AbortSignal,
  ): Promise<ArrangeOutcome & Pick<CustomerContracts, 'contracts'>> {
    let left = contracts;
    for (const { contract, at } of overlapsOf(contracts)) {
      const { id, from, isBare } = contract;
      const isNeedless = at <= from;
      if (isNeedless && !isBare) {
        this.#logger.error(
          `[${this.#name}] ${name} is billed twice: contract ${id} has terms of its own, and another one covers its beginning: archive one of them in Metronome`,
        );
        continue;
      }
      const step = isNeedless
        ? await this.archive(customerId, id, signal)
        : await this.setEnd(customerId, id, at, signal);
      if (step.kind !== 'done') return { ...step, contracts };
      left = left.flatMap((one) => {
        if (one !== contract) return one;
        return isNeedless ? [] : { ...one, to: at };
      });
      const what = isNeedless ? 'is archived' : `ends at ${new Date(at).toISOString()}`;
      this.#logger.warn(
        `[${this.#name}] contract ${id} of ${name} ${what}: another one covers its time`,
      );
    }
    return { kind: left === contracts ? 'unchanged' : 'done', contracts: left };
  }

  /**
   * Creates a contract from a full hour on. Its uniqueness key consists of customer, rate card,
   * start and generation, so that a repeat after a lost answer creates no second contract.
   *
   * Even archived contracts use up their keys for ever. If no listed contract has the key, the next
   * generation is tried.
   */
  async #create(wanted: WantedContract, from: number, signal: AbortSignal): Promise<ContractStep> {
    const { customerId, name, rateCardId, billingProviderId, netTermsDays } = wanted;
    const start = new Date(from).toISOString();
    for (let generation = 0; generation < MAX_GENERATIONS; generation += 1) {
      const uniqueness_key = uniquenessKey(wanted, from, generation);
      const body = {
        customer_id: customerId,
        name,
        rate_card_id: rateCardId,
        starting_at: start,
        uniqueness_key,
        usage_statement_schedule: { frequency: 'MONTHLY', day: 'FIRST_OF_MONTH' },
        net_payment_terms_days: netTermsDays,
        ...(billingProviderId !== undefined && {
          billing_provider_configuration: { billing_provider_configuration_id: billingProviderId },
        }),
      };
      const answer = await this.#client.create('/v1/contracts/create', body, signal);
      const isTaken = answer.kind === 'refused' && answer.status === 409;
      if (answer.kind !== 'ok' && !isTaken) return answer;
      const listed = await this.#listAll(customerId, signal);
      if (listed.kind !== 'ok') return listed;
      // A taken key has two causes: an earlier answer was lost and the contract exists, or a former
      // contract used the key.
      if (isTaken && !hasKey(listed.body, uniqueness_key)) continue;
      // Metronome repeats its first answer for a day, even if that contract is archived by now.
      if (answer.kind === 'ok' && isArchived(listed.body, answer.body)) continue;
      this.#logger.info(`[${this.#name}] contract for ${name} on ${rateCardId} from ${start}`);
      return { kind: 'done' };
    }
    return { kind: 'retry', reason: `no uniqueness key is left for a contract on ${rateCardId}` };
  }

  /** Updates an existing contract of ours: link to a billing provider and payment terms. */
  async #update(
    wanted: WantedContract,
    contract: Contract,
    signal: AbortSignal,
  ): Promise<ArrangeOutcome> {
    const linked = await this.#link(wanted, contract, signal);
    if (linked.kind !== 'done' && linked.kind !== 'unchanged') return linked;
    const { customerId, netTermsDays } = wanted;
    const isDue = netTermsDays === undefined || contract.netTermsDays === netTermsDays;
    if (isDue || !contract.isOurs) return linked;
    const body = {
      customer_id: customerId,
      contract_id: contract.id,
      update_net_payment_terms_days: netTermsDays,
    };
    return stepOf(await this.#client.post('/v2/contracts/edit', body, signal));
  }

  /** Sends an existing contract's invoices to the billing provider, from the current period on. */
  async #link(
    { customerId, billingProviderId }: WantedContract,
    contract: Contract,
    signal: AbortSignal,
  ): Promise<ArrangeOutcome> {
    if (billingProviderId === undefined || !contract.isOurs || contract.isLinked) return UNCHANGED;
    const body = {
      customer_id: customerId,
      contract_id: contract.id,
      add_billing_provider_configuration_update: {
        billing_provider_configuration: { billing_provider_configuration_id: billingProviderId },
        schedule: { effective_at: 'START_OF_CURRENT_PERIOD' },
      },
    };
    return stepOf(await this.#client.create('/v2/contracts/edit', body, signal));
  }

  #listAll(customerId: string, signal: AbortSignal): Promise<ApiAnswer> {
    const body = { customer_id: customerId, include_archived: true };
    return this.#client.post('/v2/contracts/list', body, signal);
  }
}

function stepOf(answer: ApiAnswer): ContractStep {
  return answer.kind === 'ok' ? { kind: 'done' } : answer;
}

function hasKey(listed: JsonObject, uniquenessKey: string): boolean {
  return objectsOf(listed, 'data').some(
    (item) =>
      textOf(item, 'uniqueness_key') === uniquenessKey && textOf(item, 'archived_at') === undefined,
  );
}

/** Returns whether the contract in the answer to a creation is archived by now. */
function isArchived(listed: JsonObject, created: JsonObject): boolean {
  const id = textOf(objectOf(created, 'data'), 'id');
  return objectsOf(listed, 'data').some(
    (item) => textOf(item, 'id') === id && textOf(item, 'archived_at') !== undefined,
  );
}

function uniquenessKey(
  { customerId, rateCardId }: WantedContract,
  from: number,
  generation: number,
): string {
  const identity = [customerId, rateCardId, from].join('\0');
  const digest = createHash('sha256').update(identity).digest('hex').slice(0, 32);
  const start = new Date(from).toISOString().slice(0, 13);
  return `${OUR_KEY}${start}:${digest}${generation === 0 ? '' : `#${generation}`}`;
}

function readContract(object: JsonObject): Contract {
  const schedule = objectsOf(object, 'billing_provider_configuration_schedule');
  const days = object['net_payment_terms_days'];
  return {
    id: textOf(object, 'id') ?? '',
    rateCardId: textOf(object, 'rate_card_id'),
    from: Date.parse(textOf(object, 'starting_at') ?? '') || 0,
    to: Date.parse(textOf(object, 'ending_before') ?? '') || Number.POSITIVE_INFINITY,
    ...(typeof days === 'number' && { netTermsDays: days }),
    isOurs: textOf(object, 'uniqueness_key')?.startsWith(OUR_KEY) === true,
    isBare: TERMS.every((field) => objectsOf(object, field).length === 0),
    isLinked: isRecord(object['customer_billing_provider_configuration']) || schedule.length > 0,
  };
}
