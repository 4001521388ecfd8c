import { omitUndefined } from '../../model/omit-undefined.ts';
import { cursorStatus, type DestinationStatus } from '../destination-status.ts';
import { WAITS_FOR_CHANGE } from '../lanes/plan-changes.ts';
import type { FeederOptions, FeederParts } from './feeder-parts.ts';

/** Kinds of usage, or late refusals, that a status lists. */
export const MAX_SHOWN = 20;

/** Where a feeder stands, as its parts say. */
export function feederStatus(
  {
    settings,
    destination,
    ledger,
    clock,
  }: Pick<FeederOptions, 'settings' | 'destination' | 'ledger' | 'clock'>,
  parts: FeederParts,
): DestinationStatus {
  const { name, type, suspend: suspended } = settings;
  const { pending, health, bootstrap, circuit, parked, deadLetters, offboarding, changes } = parts;
  const { isBlocked, ...report } = health.report();
  const bootstrapped = bootstrap.isReady();
  const delivering = bootstrapped && !isBlocked;
  const parkedTenants = parked.list();
  return {
    name,
    type,
    suspended,
    bootstrapped,
    delivering,
    ready: delivering && !suspended,
    ...report,
    ...cursorStatus({ name, ledger, clock }, pending.first()?.event.window_end),
    deadLetters: deadLetters.count,
    parked: parkedTenants.reduce((sum, { events }) => sum + events, 0),
    // What waits for a change of plan is not set aside: the change is listed, with what keeps it.
    parkedTenants: parkedTenants.filter(({ reason }) => reason !== WAITS_FOR_CHANGE),
    offboarding: offboarding.count,
    planChanges: changes.list().slice(0, MAX_SHOWN),
    unknownMetrics: parts.unknownMetrics(),
    unpriced: destination.unpriced?.().slice(0, MAX_SHOWN) ?? [],
    lateRefusals: [...parts.lateLines.problems(), ...(destination.lateRefusals?.() ?? [])].slice(
      0,
      MAX_SHOWN,
    ),
    ...omitUndefined({
      eventsPerSecond: destination.eventsPerSecond?.(),
      invoices: parts.invoices?.report(),
    }),
    consecutiveFailures: circuit.failures(),
  };
}
