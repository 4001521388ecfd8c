import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { type Contract, overlapsOf, planContract, twinsOf } from './contract-plan.ts';
import { type ContractStep, createContract, linkContract, setContractEnd } from './contracts.ts';
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
