import type { Ledger } from '../../../ledger/ledger.ts';
import { systemClock } from '../../../telemetry/system-clock.ts';
import { HeldUsage } from '../ledger-held-usage.ts';

/** Held usage on a ledger, where nobody is known but those whom a test makes known. */
export async function loadHeldUsage(
  ledger: Ledger,
  change: Partial<ConstructorParameters<typeof HeldUsage>[0]> = {},
): Promise<HeldUsage> {
  const held = new HeldUsage({
    ledger,
    clock: systemClock,
    unknownTenants: () => 'hold',
    isDiscovered: () => false,
    wasServed: async () => false,
    isMeasuredHere: () => false,
    ...change,
  });
  await held.load();
  return held;
}
