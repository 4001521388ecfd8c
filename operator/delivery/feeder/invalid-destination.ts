import type { DestinationSettings } from '../../settings/settings.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { cursorStatus, type ExistingDestination } from '../destination-status.ts';
import { createDeliveryRecords } from '../records/delivery-records.ts';
import type { Feeder } from './feeder.ts';

/** Creates a feeder of a destination with invalid settings: it only shows the reason. */
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
 * The interface of a destination that cannot start: its status shows the reason, and it refuses
 * every operation with it. It stores offboard requests for later.
 */
export type StandIn = Pick<
  Feeder,
  'status' | 'operations' | 'reconcile' | 'predictCorrection' | 'offboard'
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
    predictCorrection: async () => ({ state: 'cannot-start', takesNegative: true }),
    offboard: (tenant) => {
      const request = { tenant, sequence: ledger.head(), requestedAt: clock.now() };
      return ledger.writeRecords([createDeliveryRecords(ledger, name).putOffboard(request)]);
    },
  };
}
