import type { DestinationSettings } from '../settings/settings.ts';
import type { DeliveryOptions } from './delivery-options.ts';
import type { DestinationStatus, ExistingDestination } from './destination-status.ts';
import type { Feeder } from './feeder/feeder.ts';
import { createStandIn, type StandIn } from './feeder/invalid-destination.ts';
import type { RunningFeeders } from './running-feeders.ts';

/** Finds the feeder of each destination, or a stand-in if the destination cannot start. */
export class DestinationDirectory {
  readonly #options;

  constructor(
    options: Pick<DeliveryOptions, 'ledger' | 'existing' | 'clock'> & {
      readonly feeders: Pick<RunningFeeders, 'get' | 'has' | 'list'>;
      readonly wanted: () => readonly DestinationSettings[];
    },
  ) {
    this.#options = options;
  }

  find(name: string): Feeder | StandIn | undefined {
    const running = this.#options.feeders.get(name);
    if (running !== undefined) return running;
    const existing = this.#existing().find((candidate) => candidate.name === name);
    return existing && this.#standIn(existing);
  }

  statuses(): readonly DestinationStatus[] {
    const { feeders } = this.#options;
    const problems = new Map(this.#existing().map(({ name, problem }) => [name, problem]));
    const fed = feeders.list().map((feeder): DestinationStatus => {
      const status = feeder.status();
      const problem = problems.get(status.name);
      if (problem === undefined) return status;
      return { ...status, ready: false, problem: { ...problem, inForce: true } };
    });
    const others = this.#withoutFeeder().flatMap((one) => this.#standIn(one)?.status() ?? []);
    return [...fed, ...others];
  }

  /** Everything that takes offboard requests. Destinations that have not started store them too. */
  all(): readonly Pick<Feeder, 'offboard'>[] {
    const { feeders } = this.#options;
    const waiting = this.#withoutFeeder().map((one) =>
      createStandIn(one, one.problem?.message ?? 'not started yet', this.#options),
    );
    return [...feeders.list(), ...waiting];
  }

  /** Custom resources without settings in force, whose cursors this process creates. */
  unfed(): readonly Pick<DestinationSettings, 'name' | 'type' | 'startFrom'>[] {
    const wanted = new Set(this.#options.wanted().map(({ name }) => name));
    return this.#existing().flatMap(({ name, type, startFrom }) =>
      startFrom === undefined || wanted.has(name) ? [] : { name, type, startFrom },
    );
  }

  #existing(): readonly ExistingDestination[] {
    return this.#options.existing?.() ?? [];
  }

  #withoutFeeder(): readonly ExistingDestination[] {
    const { feeders } = this.#options;
    return this.#existing().filter(({ name }) => !feeders.has(name));
  }

  /** Returns a stand-in for a destination that cannot start; undefined while no reason is known. */
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
