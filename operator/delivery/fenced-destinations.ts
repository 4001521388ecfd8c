import type { Destination, Plans } from '../destinations/destination.ts';
import type { FailedStep } from '../destinations/failed-step.ts';
import type { LateBiller } from '../destinations/late.ts';
import type { CreateDestination } from '../destinations/registry.ts';
import { override } from '../model/override.ts';

const NOT_LEADING: FailedStep = {
  kind: 'retry',
  reason: 'the Lease is not renewed: another process may deliver by now',
};

/**
 * Wraps destinations so that calls with side effects return `retry` while `mayAct` is false. A
 * process that was frozen may have lost the Lease, and another one may deliver.
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
  const { customers, plans, late, notices } = destination;
  const allowed = async <T>(call: () => Promise<T>): Promise<T | FailedStep> =>
    mayAct() ? call() : NOT_LEADING;
  return override<Destination>(destination, {
    bootstrap: (...call) => allowed(() => destination.bootstrap(...call)),
    send: async (events, signal) => {
      const outcomes = await allowed(() => destination.send(events, signal));
      return 'kind' in outcomes ? events.map(() => NOT_LEADING) : outcomes;
    },
    customers: customers && {
      provision: (...call) => allowed(() => customers.provision(...call)),
      offboard: (...call) => allowed(() => customers.offboard(...call)),
    },
    plans:
      plans &&
      override<Plans>(plans, { change: (...call) => allowed(() => plans.change(...call)) }),
    late:
      late && override<LateBiller>(late, { bill: (...call) => allowed(() => late.bill(...call)) }),
    notices: notices && { notify: (...call) => allowed(() => notices.notify(...call)) },
  });
}
