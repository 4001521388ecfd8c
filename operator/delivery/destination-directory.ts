import type { DestinationSettings } from '../config/settings.ts';
import type { DeliveryOptions } from './delivery.ts';
import type { DestinationStatus, ExistingDestination } from './destination-status.ts';
import type { Feeder } from './feeder/feeder.ts';
import { createStandIn, type StandIn } from './feeder/invalid-destination.ts';
import type { RunningFeeders } from './running-feeders.ts';
import { createElsewhere, feederLease } from './shared-feeders.ts';
import type { SharedStatus } from './shared-status.ts';

export interface DestinationDirectoryOptions
  extends Pick<DeliveryOptions, 'ledger' | 'shared' | 'existing' | 'clock'> {
  readonly feeders: Pick<RunningFeeders, 'get' | 'has' | 'list'>;
  /** What others have told of those that they feed. */
  readonly status: Pick<SharedStatus, 'of'>;
  /** Those that are to be fed, by this process or another. */
  readonly wanted: () => readonly DestinationSettings[];
}

/**
 * Who stands for each destination in this process: its feeder, or what is in its place where another process feeds it, or it
 * cannot start.
 */
export class DestinationDirectory {
  readonly #options: DestinationDirectoryOptions;

  constructor(options: DestinationDirectoryOptions) {
    this.#options = options;
  }

  find(name: string): Feeder | StandIn | undefined {
    const running = this.#options.feeders.get(name);
    if (running !== undefined) return running.feeder;
    const wanted = this.#options.wanted().find((candidate) => candidate.name === name);
    const elsewhere = wanted && this.#elsewhere(wanted);
    if (elsewhere !== undefined) return elsewhere;
    const existing = this.#existing().find((candidate) => candidate.name === name);
    return existing && this.#standIn(existing);
  }

  statuses(): readonly DestinationStatus[] {
    const { feeders, wanted } = this.#options;
    const problems = new Map(this.#existing().map(({ name, problem }) => [name, problem]));
    const fed = feeders.list().map(({ feeder }): DestinationStatus => {
      const status = feeder.status();
      const problem = problems.get(status.name);
      if (problem === undefined) return status;
      return { ...status, ready: false, problem: { ...problem, inForce: true } };
    });
    const elsewhere = wanted().flatMap((one) => this.#elsewhere(one)?.status() ?? []);
    const others = this.#fedByNobody().flatMap((one) => this.#standIn(one)?.status() ?? []);
    return [...fed, ...elsewhere, ...others];
  }

  /** All that a tenant that leaves is told to: those that have not started remember it, too. */
  all(): readonly Pick<Feeder, 'offboard'>[] {
    const { feeders, wanted } = this.#options;
    const waiting = this.#fedByNobody().map((one) =>
      createStandIn(one, one.problem?.message ?? 'not started yet', this.#options),
    );
    const elsewhere = wanted().flatMap((one) => this.#elsewhere(one) ?? []);
    return [...feeders.list().map(({ feeder }) => feeder), ...elsewhere, ...waiting];
  }

  /** Custom resources that no settings are in force for, and whose cursors this process creates. */
  unfed(): readonly Pick<DestinationSettings, 'name' | 'type' | 'startFrom'>[] {
    const wanted = new Set(this.#options.wanted().map(({ name }) => name));
    return this.#existing().flatMap(({ name, type, startFrom }) =>
      startFrom === undefined || wanted.has(name) ? [] : { name, type, startFrom },
    );
  }

  /** Whether a destination is to be fed by one of several processes. */
  isShared(name: string): boolean {
    const { shared, wanted } = this.#options;
    return shared !== undefined && wanted().some((one) => one.name === name);
  }

  #existing(): readonly ExistingDestination[] {
    return this.#options.existing?.() ?? [];
  }

  #fedByNobody(): readonly ExistingDestination[] {
    const { feeders } = this.#options;
    return this.#existing().filter(({ name }) => !feeders.has(name) && !this.isShared(name));
  }

  /** In place of a destination that another process feeds; undefined where none does. */
  #elsewhere(settings: DestinationSettings): StandIn | undefined {
    const { shared, clock, feeders, status } = this.#options;
    if (shared === undefined || feeders.has(settings.name)) return undefined;
    const address = shared.leases.addressOf(feederLease(settings.name));
    const told = status.of(settings.name) ?? {};
    return createElsewhere(settings, address, { open: shared.open, clock, told });
  }

  /** In place of a destination that cannot start; undefined while nobody knows of a reason. */
  #standIn(destination: ExistingDestination): StandIn | undefined {
    const { problem } = destination;
    if (problem === undefined) return undefined;
    const standIn = createStandIn(destination, problem.message, this.#options);
    return {
      ...standIn,
      status: () => ({ ...standIn.status(), problem: { ...problem, inForce: false } }),
    };
  }
}
