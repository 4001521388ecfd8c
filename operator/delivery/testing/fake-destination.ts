import type {
  Customers,
  DeliveryOutcome,
  Destination,
  DestinationLimits,
  StepOutcome,
  Sums,
} from '../../destinations/destination.ts';
import type { Tenant } from '../../model/tenant.ts';
import type { MetricDefinition } from '../../model/catalog.ts';
import type { UsageEvent } from '../../model/event.ts';

/** What a billing system does with one call: `lost` took the events and did not say so. */
export type Reaction =
  | 'accept'
  | 'lost'
  | 'reset'
  | 'unavailable'
  | 'unauthorized'
  | 'limited'
  | 'refuse'
  | readonly DeliveryOutcome[];

export interface FakeDestination extends Destination {
  readonly customers: Customers;
  /** Whether it can be asked for sums, and what it answers. */
  sums?: Sums;
  /** Ids in the order in which they were first taken. */
  readonly taken: readonly string[];
  /** Ids that were billed a second time, since they had been forgotten. */
  readonly billedTwice: readonly string[];
  /** The ids of every call, in order. */
  readonly calls: readonly (readonly string[])[];
  readonly provisioned: readonly Tenant[];
  readonly offboarded: readonly string[];
  readonly bootstraps: readonly (readonly string[])[];
  readonly closed: boolean;
  /** How it reacts from now on. */
  react: (events: readonly UsageEvent[]) => Reaction;
  reactToTenant: (tenant: Tenant) => StepOutcome;
  reactToBootstrap: () => StepOutcome;
  reactToOffboard: (tenant: Tenant) => StepOutcome;
}

export interface FakeOptions {
  readonly name?: string;
  readonly limits?: Partial<DestinationLimits>;
  readonly now?: () => number;
  /** Whether it can say which events it has. */
  readonly verifies?: boolean;
  readonly accepts?: (metric: MetricDefinition) => boolean;
  /** Waited for in each call, so that tests can hold one. */
  readonly pause?: (signal: AbortSignal) => Promise<void>;
}

const DONE: StepOutcome = { kind: 'done' };

const ANSWERS: Readonly<Record<Extract<Reaction, string>, DeliveryOutcome>> = {
  accept: { kind: 'delivered' },
  lost: { kind: 'retry', reason: 'timed out' },
  reset: { kind: 'retry', reason: 'connection reset' },
  unavailable: { kind: 'retry', reason: 'status 503' },
  limited: { kind: 'retry', reason: 'status 429', afterMs: 30_000 },
  unauthorized: { kind: 'blocked', reason: 'status 401' },
  refuse: { kind: 'split', reason: 'status 400' },
};

/** A billing system that keeps what it was sent, and misbehaves as it is told. */
export function createFakeDestination(options: FakeOptions = {}): FakeDestination {
  const now = options.now ?? (() => 0);
  const limits: DestinationLimits = {
    batchEvents: 10,
    negativeQuantities: true,
    ...options.limits,
  };
  const taken = new Map<string, number>();
  const takenEver: string[] = [];
  const billedTwice: string[] = [];
  const calls: string[][] = [];
  const provisioned: Tenant[] = [];
  const offboarded: string[] = [];
  const bootstraps: string[][] = [];
  let closed = false;

  const take = (events: readonly UsageEvent[]): void => {
    for (const { id } of events) {
      const at = taken.get(id);
      if (at === undefined) takenEver.push(id);
      else if (now() - at >= (limits.idMemoryMs ?? Number.POSITIVE_INFINITY)) billedTwice.push(id);
      if (at === undefined || billedTwice.at(-1) === id) taken.set(id, now());
    }
  };
  const answer = (
    events: readonly UsageEvent[],
    reaction: Reaction,
  ): readonly DeliveryOutcome[] => {
    if (typeof reaction !== 'string') {
      take(events.filter((_, index) => reaction[index]?.kind === 'delivered'));
      return reaction;
    }
    if (reaction === 'accept' || reaction === 'lost') take(events);
    return events.map(() => ANSWERS[reaction]);
  };

  const fake: FakeDestination = {
    name: options.name ?? 'fake',
    type: 'webhook',
    limits,
    accepts: options.accepts ?? (() => true),
    taken: takenEver,
    billedTwice,
    calls,
    provisioned,
    offboarded,
    bootstraps,
    get closed() {
      return closed;
    },
    react: () => 'accept',
    reactToTenant: () => DONE,
    reactToBootstrap: () => DONE,
    reactToOffboard: () => DONE,

    bootstrap: async (catalog, signal) => {
      await options.pause?.(signal);
      bootstraps.push(catalog.map(({ code }) => code));
      return fake.reactToBootstrap();
    },
    send: async (events, signal) => {
      calls.push(events.map(({ id }) => id));
      await options.pause?.(signal);
      return answer(events, fake.react(events));
    },
    customers: {
      provision: async (tenant, signal) => {
        await options.pause?.(signal);
        const outcome = fake.reactToTenant(tenant);
        if (outcome.kind === 'done') provisioned.push(tenant);
        return outcome;
      },
      offboard: async (tenant) => {
        const outcome = fake.reactToOffboard(tenant);
        if (outcome.kind === 'done') offboarded.push(tenant.id);
        return outcome;
      },
    },
    ...(options.verifies === true && {
      verify: async (events: readonly UsageEvent[]) => ({
        kind: 'verified',
        known: new Set(events.map(({ id }) => id).filter((id) => taken.has(id))),
      }),
    }),
    close: async () => {
      closed = true;
    },
  };
  return fake;
}
