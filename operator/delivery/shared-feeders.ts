import type { DestinationSettings } from '../config/settings.ts';
import type { Destination } from '../destinations/destination.ts';
import type { FailedStep } from '../destinations/failed-step.ts';
import type { Ledger, Replica } from '../ledger/ledger.ts';
import type { HeldLease } from '../ledger/leases.ts';
import { override } from '../model/override.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { DestinationStatus } from './destination-status.ts';
import { createStandIn, type StandIn } from './feeder/invalid-destination.ts';

/**
 * How feeders are shared out among several processes on one ledger (docs/delivery.md#several-replicas): each lives as
 * long as this process holds its lease, and writes by it.
 */
export type SharedFeeders = Pick<Replica, 'leases' | 'heldBy' | 'open'>;

/** The lease of a destination's feeder. */
export function feederLease(destination: string): string {
  return `feeder/${destination}`;
}

const NOT_HELD: FailedStep = {
  kind: 'retry',
  reason: 'the lease of its feeder is not renewed: another replica may deliver by now',
};

/**
 * A destination of which nothing is asked that has an effect, unless the lease can be trusted at that very moment: a
 * process that was asleep learns by it that another one delivers by now.
 */
export function guarded(destination: Destination, held: HeldLease): Destination {
  const { late } = destination;
  const allowed = async <T>(call: () => Promise<T>): Promise<T | FailedStep> =>
    held.isTrusted() ? call() : NOT_HELD;
  return override<Destination>(destination, {
    bootstrap: (...call) => allowed(() => destination.bootstrap(...call)),
    provision: (...call) => allowed(() => destination.provision(...call)),
    offboard: (...call) => allowed(() => destination.offboard(...call)),
    send: async (events, signal) => {
      const outcomes = await allowed(() => destination.send(events, signal));
      return 'kind' in outcomes ? events.map(() => NOT_HELD) : outcomes;
    },
    ...(destination.change !== undefined && {
      change: (...call: Parameters<NonNullable<Destination['change']>>) =>
        allowed(async () => (await destination.change?.(...call)) ?? NOT_HELD),
    }),
    ...(late !== undefined && {
      late: override<typeof late>(late, {
        bill: (...call) => allowed(() => late.bill(...call)),
      }),
    }),
  });
}

/** What is shown of a destination that another process feeds, as far as that one has `told`, and done about it here. */
export function createElsewhere(
  settings: DestinationSettings,
  address: string | undefined,
  {
    open,
    clock,
    told,
  }: { readonly open: Ledger; readonly clock: Clock; readonly told: Partial<DestinationStatus> },
): StandIn {
  const where = address === undefined ? 'by no replica yet' : `by the replica at ${address}`;
  const standIn = createStandIn(settings, `it is fed ${where}`, { ledger: open, clock });
  return {
    ...standIn,
    status: () => {
      const { held: _, lastError: __, ...status } = standIn.status();
      const isFed = address !== undefined;
      return {
        ...status,
        ready: isFed,
        bootstrapped: isFed,
        delivering: isFed,
        ...(isFed && told),
        fedBy: address ?? '',
      };
    },
  };
}
