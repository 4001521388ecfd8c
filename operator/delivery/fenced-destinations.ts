import type { Destination } from '../destinations/destination.ts';
import type { FailedStep } from '../destinations/failed-step.ts';
import type { CreateDestination } from '../destinations/registry.ts';
import { override } from '../model/override.ts';

const NOT_LEADING: FailedStep = {
  kind: 'retry',
  reason: 'the Lease is not renewed: another process may deliver by now',
};

/**
 * Destinations whose calls with an effect are retried later while `mayAct` is false: a process that was frozen learns
 * by it that another one may deliver by now.
 */
export function fencedDestinations(
  create: CreateDestination,
  mayAct: () => boolean,
): CreateDestination {
  return (settings) => {
    const made = create(settings);
    return made.kind === 'created'
      ? { ...made, destination: fenced(made.destination, mayAct) }
      : made;
  };
}

function fenced(destination: Destination, mayAct: () => boolean): Destination {
  const { late } = destination;
  const allowed = async <T>(call: () => Promise<T>): Promise<T | FailedStep> =>
    mayAct() ? call() : NOT_LEADING;
  return override<Destination>(destination, {
    bootstrap: (...call) => allowed(() => destination.bootstrap(...call)),
    provision: (...call) => allowed(() => destination.provision(...call)),
    offboard: (...call) => allowed(() => destination.offboard(...call)),
    send: async (events, signal) => {
      const outcomes = await allowed(() => destination.send(events, signal));
      return 'kind' in outcomes ? events.map(() => NOT_LEADING) : outcomes;
    },
    ...(destination.change !== undefined && {
      change: (...call: Parameters<NonNullable<Destination['change']>>) =>
        allowed(async () => (await destination.change?.(...call)) ?? NOT_LEADING),
    }),
    ...(destination.notify !== undefined && {
      notify: (...call: Parameters<NonNullable<Destination['notify']>>) =>
        allowed(async () => (await destination.notify?.(...call)) ?? NOT_LEADING),
    }),
    ...(late !== undefined && {
      late: override<typeof late>(late, {
        bill: (...call) => allowed(() => late.bill(...call)),
      }),
    }),
  });
}
