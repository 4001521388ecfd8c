import { cursorStatus, type DestinationStatus } from '../destination-status.ts';
import { WAITS_FOR_CHANGE } from '../lanes/plan-changes.ts';
import type { Bootstrap } from './bootstrap.ts';
import type { Circuit } from './circuit.ts';
import type { FeedRecords } from './feed-records.ts';
import type { FeederOptions } from '../delivery-options.ts';
import type { Health } from './health.ts';
import type { Inspection } from './inspection.ts';

/** Most entries in a list of a status. */
export const MAX_SHOWN = 20;

interface StatusSources {
  readonly feed: FeedRecords;
  readonly health: Health;
  readonly bootstrap: Bootstrap;
  readonly circuit: Circuit;
  readonly inspection: Inspection;
}

/** Builds the status of a feeder from the states of its components. */
export function feederStatus(
  { settings, destination, ledger, clock }: FeederOptions,
  { feed, health, bootstrap, circuit, inspection }: StatusSources,
): DestinationStatus {
  const { name, type, suspend: suspended } = settings;
  const { pending, parked, deadLetters, leaving, changes, lateLines } = feed;
  const { limits, prices, alerts } = destination;
  const bootstrapped = bootstrap.isReady();
  const delivering = bootstrapped && !health.isBlocked;
  const parkedTenants = parked.list();
  return {
    name,
    type,
    suspended,
    bootstrapped,
    delivering,
    ready: delivering && !suspended,
    ...health.report(),
    ...cursorStatus({ name, ledger, clock }, pending.first()?.event.window_end),
    deadLetters: deadLetters.count,
    parked: parkedTenants.reduce((sum, { events }) => sum + events, 0),
    // Tenants that wait for a change of plan are listed in `planChanges` instead.
    parkedTenants: parkedTenants.filter(({ reason }) => reason !== WAITS_FOR_CHANGE),
    offboarding: leaving.count,
    planChanges: changes.list().slice(0, MAX_SHOWN),
    unknownMetrics: inspection.unknownMetrics(),
    unpriced: prices?.unpriced().slice(0, MAX_SHOWN) ?? [],
    lateRefusals: [...lateLines.problems(), ...(alerts?.lateRefusals?.() ?? [])],
    eventsPerSecond: limits.eventsPerSecond,
    invoices: inspection.invoices?.report(),
    consecutiveFailures: circuit.failures(),
  };
}
