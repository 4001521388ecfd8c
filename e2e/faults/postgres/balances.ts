import { Credits } from '../../../operator/billing/budgets/credits.ts';
import type { Ledger } from '../../../operator/ledger/ledger.ts';
import { TEST_WINDOW_MS } from '../../../operator/ledger/testing/events.ts';
import type { UsageEvent } from '../../../operator/model/event.ts';
import type { Clock } from '../../../operator/telemetry/clock.ts';
import { systemClock } from '../../../operator/telemetry/system-clock.ts';
import { CREDIT_KEYS, wrongBalances } from '../balances.ts';
import { createBalances, type LiveBalances } from '../subject/balances.ts';
import { TENANTS, windowEnd } from './windows.ts';

/** Prepaid balances of everybody in a stream, at the time that it is in the stream. */
export interface StreamBalances extends LiveBalances {
  /** It is the end of this window. */
  reach(window: number): void;
}

export function streamBalances(ledger: Ledger): StreamBalances {
  let now = windowEnd(0);
  const clock: Clock = { ...systemClock, now: () => now };
  const balances = createBalances({ ledger, clock, tenants: TENANTS, windowMs: TEST_WINDOW_MS });
  return {
    ...balances,
    reach: (window) => {
      now = windowEnd(window);
    },
  };
}

/** What a stream and those who opened it have to hold: credits that were acknowledged, and the last window of its journal. */
export interface Expected {
  readonly credits: number;
  readonly window: number;
  readonly events: Iterable<UsageEvent>;
}

/** What is wrong with the balances that the next operator finds, one line each. */
export async function checkBalances(
  ledger: Ledger,
  { credits, window, events }: Expected,
): Promise<readonly string[]> {
  const found = await foundCredits(ledger);
  const missing = TENANTS.flatMap((tenant) => {
    const count = found.get(tenant) ?? 0;
    return count < credits ? [`${count} credits of ${tenant}, where ${credits} were taken`] : [];
  });
  const balances = streamBalances(ledger);
  balances.reach(window);
  for (const _ of CREDIT_KEYS) await balances.round();
  return [...missing, ...wrongBalances(balances.read(), events)];
}

async function foundCredits(ledger: Ledger): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>();
  const credits = new Credits(ledger, () => TEST_WINDOW_MS, systemClock);
  for await (const { tenant } of credits.list()) counts.set(tenant, (counts.get(tenant) ?? 0) + 1);
  return counts;
}
