import type { DestinationSettings } from '../config/settings.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Clock } from '../telemetry/clock.ts';
import { createDeliveryRecords } from './delivery-records.ts';
import type { Feeder } from './feeder.ts';

/**
 * Stands in for a destination whose settings cannot be used: it keeps its place, shows why it stands
 * still, and remembers whom to offboard once it works.
 */
export function createUnusable(
  settings: DestinationSettings,
  reason: string,
  { ledger, clock }: { readonly ledger: Ledger; readonly clock: Clock },
): Feeder {
  const { name, type, suspend: suspended } = settings;
  const records = createDeliveryRecords(ledger, name);
  const refusal = async () => ({ kind: 'failed', reason }) as const;
  return {
    settings,
    start: () => undefined,
    stop: async () => undefined,
    wake: () => undefined,
    status: () => {
      const cursor = ledger.cursors().find(({ destination }) => destination === name);
      const head = ledger.head();
      const lagEvents = Math.max(0, head - (cursor?.sequence ?? head));
      const oldest = cursor?.windowEnd;
      const behindMs = oldest === undefined ? 0 : clock.now() - Date.parse(oldest);
      return {
        name,
        type,
        suspended,
        lagEvents,
        held: reason,
        lastError: reason,
        ready: false,
        bootstrapped: false,
        delivering: false,
        delivered: 0,
        skipped: 0,
        deadLetters: 0,
        parked: 0,
        parkedTenants: [],
        unpriced: [],
        lateRefusals: [],
        offboarding: 0,
        consecutiveFailures: 0,
        cursor: cursor?.sequence ?? 0,
        ...(cursor?.windowEnd !== undefined && { cursorWindowEnd: cursor.windowEnd }),
        lagSeconds: lagEvents === 0 ? 0 : Math.max(0, behindMs / 1000),
      };
    },
    offboard: (tenant) => {
      const request = { tenant, sequence: ledger.head(), requestedAt: clock.now() };
      return ledger.writeRecords([records.putOffboard(request)]);
    },
    deadLetters: async () => ({ deadLetters: [] }),
    replay: refusal,
    discard: refusal,
    moveCursor: refusal,
    reconcile: refusal,
  };
}
