import type { DestinationStatus } from './destination-status.ts';
import type { FeederOptions, FeederParts } from './feeder-parts.ts';

const MAX_SHOWN = 20;

/** What a feeder tells of itself. */
export function feederStatus(
  { settings, destination, ledger, clock }: FeederOptions,
  { pending, health, bootstrap, circuit, parked, deadLetters, offboarding }: FeederParts,
): DestinationStatus {
  const { name, type, suspend: suspended } = settings;
  const cursor = ledger.cursors().find(({ destination }) => destination === name);
  const head = ledger.head();
  const lagEvents = Math.max(0, head - (cursor?.sequence ?? head));
  const oldest = pending.first()?.event.window_end ?? cursor?.windowEnd;
  const behindMs = oldest === undefined ? 0 : clock.now() - Date.parse(oldest);
  const { delivered, skipped, trouble, lastSuccessAt, lastErrorAt } = health.report();
  const bootstrapped = bootstrap.isReady();
  const delivering = bootstrapped && trouble === undefined;
  const parkedTenants = parked.list();
  const eventsPerSecond = destination.eventsPerSecond?.();
  return {
    name,
    type,
    suspended,
    bootstrapped,
    delivering,
    delivered,
    skipped,
    parkedTenants,
    ready: delivering && !suspended,
    ...(trouble?.kind === 'hold' && { held: trouble.reason }),
    cursor: cursor?.sequence ?? 0,
    ...(cursor?.windowEnd !== undefined && { cursorWindowEnd: cursor.windowEnd }),
    lagEvents,
    lagSeconds: lagEvents === 0 ? 0 : Math.max(0, behindMs / 1000),
    deadLetters: deadLetters.count,
    parked: parkedTenants.reduce((sum, { events }) => sum + events, 0),
    offboarding: offboarding.count,
    unpriced: destination.unpriced?.().slice(0, MAX_SHOWN) ?? [],
    lateRefusals: destination.lateRefusals?.().slice(0, MAX_SHOWN) ?? [],
    ...(eventsPerSecond !== undefined && { eventsPerSecond }),
    consecutiveFailures: circuit.failures(),
    ...(lastSuccessAt !== undefined && { lastSuccessAt }),
    ...(trouble !== undefined && { lastError: trouble.reason }),
    ...(trouble !== undefined && lastErrorAt !== undefined && { lastErrorAt }),
  };
}
