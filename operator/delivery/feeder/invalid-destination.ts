import type { DestinationSettings } from '../../settings/settings.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { cursorStatus, type ExistingDestination } from '../destination-status.ts';
import { createDeliveryRecords } from '../records/delivery-records.ts';
import type { Feeder } from './feeder.ts';

/**
 * Stands in for a destination whose settings are invalid: it keeps its place, and shows why it stands
 * still.
 */
export function createInvalidDestinationFeeder(
  settings: DestinationSettings,
  reason: string,
  { ledger, clock }: { readonly ledger: Ledger; readonly clock: Clock },
): Feeder {
  return {
    settings,
    start: () => undefined,
    stop: async () => undefined,
    wake: () => undefined,
    ...createStandIn(settings, reason, { ledger, clock }),
  };
}

/**
 * What is shown of a destination that cannot start, and done about it: nothing, with the reason. It
 * remembers whom to offboard once it works.
 */
export type StandIn = Pick<
  Feeder,
  'status' | 'operations' | 'reconcile' | 'correctionOutlook' | 'offboard'
>;

export function createStandIn(
  destination: ExistingDestination,
  reason: string,
  { ledger, clock }: { readonly ledger: Ledger; readonly clock: Clock },
): StandIn {
  const { name, type, suspend: suspended } = destination;
  const refuse = async () => ({ kind: 'failed', reason }) as const;
  return {
    status: () => ({
      name,
      type,
      suspended,
      blocked: reason,
      lastError: reason,
      ready: false,
      bootstrapped: false,
      delivering: false,
      delivered: 0,
      skipped: 0,
      deadLetters: 0,
      parked: 0,
      parkedTenants: [],
      unknownMetrics: [],
      unpriced: [],
      lateRefusals: [],
      offboarding: 0,
      planChanges: [],
      consecutiveFailures: 0,
      ...cursorStatus({ name, ledger, clock }),
    }),
    operations: {
      deadLetters: async () => ({ deadLetters: [] }),
      replay: refuse,
      discard: refuse,
      moveCursor: refuse,
    },
    reconcile: refuse,
    correctionOutlook: async () => ({ state: 'cannot-start', takesNegative: true }),
    offboard: (tenant) => {
      const request = { tenant, sequence: ledger.head(), requestedAt: clock.now() };
      return ledger.writeRecords([createDeliveryRecords(ledger, name).putOffboard(request)]);
    },
  };
}
