import { cursorStatus, type DestinationStatus } from '../destination-status.ts';
import { WAITS_FOR_CHANGE } from '../lanes/plan-changes.ts';
import type { Bootstrap } from './bootstrap.ts';
import type { Circuit } from './circuit.ts';
import type { FeedRecords } from './feed-records.ts';
import type { FeederOptions } from './feeder-options.ts';
import type { Health } from './health.ts';
import type { Inspection } from './inspection.ts';

/** Kinds of usage, or late refusals, that a status lists. */
export const MAX_SHOWN = 20;

interface StatusSources {
  readonly feed: FeedRecords;
  readonly health: Health;
  readonly bootstrap: Bootstrap;
  readonly circuit: Circuit;
  readonly inspection: Inspection;
}

/** Where a feeder stands, as its parts say. */
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
  const refusals = [...lateLines.problems(), ...(alerts?.lateRefusals?.() ?? [])];
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
    // What waits for a change of plan is not set aside: the change is listed, with what keeps it.
    parkedTenants: parkedTenants.filter(({ reason }) => reason !== WAITS_FOR_CHANGE),
    offboarding: leaving.count,
    planChanges: changes.list().slice(0, MAX_SHOWN),
    unknownMetrics: inspection.unknownMetrics(),
    unpriced: prices?.unpriced().slice(0, MAX_SHOWN) ?? [],
    lateRefusals: refusals.slice(0, MAX_SHOWN),
    eventsPerSecond: limits.eventsPerSecond,
    invoices: inspection.invoices?.report(),
    consecutiveFailures: circuit.failures(),
  };
}
