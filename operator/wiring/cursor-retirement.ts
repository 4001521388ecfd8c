import type { SettingsStore } from '../config/settings.ts';
import type { CursorRetirement } from '../controllers/billing-destination.ts';
import type { Delivery } from '../delivery/delivery.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Clock } from '../telemetry/clock.ts';

export interface CursorRetirementOptions {
  readonly settings: Pick<SettingsStore, 'current'>;
  readonly delivery: Pick<Delivery, 'apply'>;
  readonly ledger: Pick<Ledger, 'cursors' | 'retireCursor'>;
  readonly clock: Clock;
}

/** Retires the cursor of a deleted destination after its feeder has ended (design 4). */
export function createCursorRetirement(options: CursorRetirementOptions): CursorRetirement {
  const { settings, delivery, ledger, clock } = options;
  return {
    retire: async (destination) => {
      await delivery.apply(settings.current().billing.destinations);
      const stays = settings
        .current()
        .billing.destinations.some(({ name }) => name === destination);
      const cursor = ledger.cursors().find((candidate) => candidate.destination === destination);
      // The environment may name a destination of the same name, which goes on at this cursor.
      if (stays || cursor === undefined || cursor.retiredAt !== undefined) {
        return { kind: 'retired' };
      }
      const outcome = await ledger.retireCursor(destination, clock.now());
      return outcome.kind === 'written'
        ? { kind: 'retired' }
        : { kind: 'failed', reason: outcome.message };
    },
  };
}
