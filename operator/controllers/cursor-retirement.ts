import type { SettingsStore } from '../config/settings.ts';
import type { Delivery } from '../delivery/delivery.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { CursorRetirement } from './billing-destination.ts';

export interface CursorRetirementOptions {
  readonly delivery: Pick<Delivery, 'apply'>;
  readonly ledger: Pick<Ledger, 'cursors' | 'retireCursor'>;
  readonly settings: Pick<SettingsStore, 'current'>;
  readonly clock: Clock;
}

/**
 * Retires cursors once delivery has let go of them: a batch under way would otherwise commit, and so
 * revive, the cursor afterwards. Delivery retires those of destinations it fed; what is left, because
 * delivery has not begun or could not write, is retired here.
 */
export function createCursorRetirement(options: CursorRetirementOptions): CursorRetirement {
  const { delivery, ledger, settings, clock } = options;
  return {
    async retire(destination) {
      await delivery.apply(settings.current().billing.destinations);
      const cursor = ledger.cursors().find((each) => each.destination === destination);
      if (cursor === undefined || cursor.retiredAt !== undefined) return { kind: 'retired' };
      const outcome = await ledger.retireCursor(destination, clock.now());
      if (outcome.kind === 'written') return { kind: 'retired' };
      return { kind: 'failed', reason: outcome.message };
    },
  };
}
