import { createCapturingLogger } from '../../../kubernetes/testing/capturing-logger.ts';
import { createManualClock, type ManualClock } from '../../../kubernetes/testing/manual-clock.ts';
import { createSettingsStore } from '../../../settings/settings-store.ts';
import type { Ledger } from '../../../ledger/ledger.ts';
import type { BudgetCounts } from '../../../model/budget.ts';
import { SCHEMA_VERSION, type UsageEvent } from '../../../model/event.ts';
import { type Decimal, decimalFromNanos } from '../../../model/decimal.ts';
import type { PriceBook } from '../../../model/price-book.ts';
import { planPrices } from '../../usage/plan-prices.ts';
import type { UsageTotals } from '../../usage/usage-totals.ts';
import { settingsOf } from '../../../metering/windows/testing/harness.ts';
import { type CreditOutcome, Credits } from '../credits.ts';
import { PrepaidBalances } from '../prepaid.ts';

const TENANT = 'acme';

/** Everything that outlives a process, and a process on it. */
export interface PrepaidWorld {
  readonly clock: ManualClock;
  readonly credits: Credits;
  readonly balances: PrepaidBalances;
  credit(key: string, amount: Decimal): Promise<CreditOutcome>;
  /**
   * Takes in what the ledger has, begins books, and writes what it has where that is due or wanted.
   */
  pass(isSaved?: boolean): Promise<void>;
  /** What is used, in the units of a budget. */
  used(): bigint;
  /** The process ends, without a word, and another one begins. */
  kill(): Promise<void>;
}

/** Prepaid balances of one tenant. Sums are added up from the ledger, as far as it is kept. */
export async function startPrepaidWorld(
  ledger: Ledger,
  book: PriceBook,
  { counts, now }: { readonly counts: BudgetCounts; readonly now: number },
): Promise<PrepaidWorld> {
  const clock = createManualClock(now);
  const settings = createSettingsStore(settingsOf({}));
  settings.setPriceBook(book.name, book);
  const pricesOf = planPrices([book], () => book.name);
  const credits = new Credits(ledger, () => 60_000, clock);
  const signal = new AbortController().signal;
  const start = async (): Promise<PrepaidBalances> => {
    const made = new PrepaidBalances({
      ledger,
      credits,
      totals: () => ({ addTo: sumUp(ledger) }),
      settings,
      isCharged: () => true,
      clock,
      logger: createCapturingLogger(),
    });
    await made.load();
    return made;
  };
  let balances = await start();
  return {
    clock,
    credits,
    get balances() {
      return balances;
    },
    credit: (key, amount) => credits.add({ tenant: TENANT, key, amount, counts }),
    pass: async (isSaved = false) => {
      await balances.refreshCredits(TENANT);
      await balances.follow(ledger.head());
      await balances.open(signal);
      await balances.save(pricesOf, isSaved);
    },
    used: () => balances.book(TENANT, counts)?.account(pricesOf).usedAt(0) ?? 0n,
    kill: async () => {
      balances = await start();
    },
  };
}

/** An event of the tenant. */
export function usageOf(
  id: string,
  {
    start,
    nanos,
    windowMs = 60_000,
    ...change
  }: Partial<UsageEvent> & { start: number; nanos: bigint; windowMs?: number },
): UsageEvent {
  return {
    schema_version: SCHEMA_VERSION,
    id,
    tenant: TENANT,
    metric: 'tenant_gpu_hours',
    unit: 'gpu-hours',
    quantity: decimalFromNanos(nanos),
    window_start: new Date(start).toISOString(),
    window_end: new Date(start + windowMs).toISOString(),
    recorded_at: new Date(start + windowMs + 3_000).toISOString(),
    source: 'collector',
    ...change,
  };
}

/** The sums of a ledger, added up whenever they are asked for. */
export function sumUp(ledger: Ledger): UsageTotals['addTo'] {
  return async (sums, { range, filter }) => {
    const page = await ledger.read(ledger.lowWater(), 1_000_000);
    if (page.kind === 'failed') throw new Error(page.message);
    for (const { event } of page.events) {
      const at = Date.parse(event.window_start);
      if (at >= range.from && at < range.to && filter(event)) sums.add(event);
    }
    return { kind: 'added', partial: false, head: ledger.head() };
  };
}
