import { createSettingsStore } from '../../../operator/settings/settings-store.ts';
import { testSettings } from '../../../operator/http/testing/test-server.ts';
import { Credits } from '../../../operator/billing/budgets/credits.ts';
import { PrepaidBalances } from '../../../operator/billing/budgets/prepaid.ts';
import type { Ledger } from '../../../operator/ledger/ledger.ts';
import { silentLogger } from '../../../operator/ledger/testing/level-ledger.ts';
import { parseDecimal } from '../../../operator/model/decimal.ts';
import type { Clock } from '../../../operator/telemetry/clock.ts';
import { planPrices } from '../../../operator/billing/usage/plan-prices.ts';
import { CREDIT, CREDIT_KEYS, PRICE_BOOK } from '../balances.ts';
import type { LedgerEnd } from './messages.ts';

/** Prepaid balances of all tenants, as the operator keeps them. */
export interface LiveBalances {
  /** Credits all tenants by the next of {@link CREDIT_KEYS}, takes in what the ledger has, and writes it. Rejects where the ledger fails. */
  round(): Promise<void>;
  /** How many of the keys all tenants have been credited by, as far as this process was told. */
  credits(): number;
  /** What is on record. */
  read(): NonNullable<LedgerEnd['balances']>;
}

export interface BalancesOptions {
  readonly ledger: Ledger;
  readonly clock: Clock;
  /** Who is credited. */
  readonly tenants: readonly string[];
  readonly windowMs: number;
}

const EUR = { kind: 'money', currency: 'EUR' } as const;
const NEVER = new AbortController().signal;

export function createBalances(options: BalancesOptions): LiveBalances {
  const { ledger, clock, tenants, windowMs } = options;
  const credits = new Credits(ledger, () => windowMs, clock);
  const prepaid = new PrepaidBalances({
    ledger,
    credits,
    clock,
    // No price has tiers that what was used before would fill.
    totals: () => undefined,
    settings: createSettingsStore(testSettings()),
    isCharged: () => true,
    logger: silentLogger,
  });
  const pricesOf = planPrices([PRICE_BOOK], () => PRICE_BOOK.name);
  const amount = parseDecimal(CREDIT);
  let isLoaded = false;
  let passes = 0;
  return {
    round: async () => {
      if (!isLoaded) await prepaid.load();
      isLoaded = true;
      const key = CREDIT_KEYS[passes % CREDIT_KEYS.length];
      for (const tenant of tenants) {
        if (key === undefined || amount === undefined) continue;
        const outcome = await credits.add({ tenant, key, amount, counts: EUR });
        if (outcome.kind !== 'credited') throw new Error(JSON.stringify(outcome));
        await prepaid.refreshCredits(tenant);
      }
      passes += 1;
      await prepaid.follow(ledger.head());
      await prepaid.open(NEVER);
      await prepaid.save(pricesOf, true);
    },
    credits: () => Math.min(passes, CREDIT_KEYS.length),
    read: () =>
      tenants.map((tenant) => {
        const book = prepaid.book(tenant, EUR);
        return {
          tenant,
          since: book?.since ?? 0,
          credited: `${prepaid.credited(tenant, EUR)}`,
          used: `${book?.account(pricesOf).usedAt(0) ?? 0n}`,
        };
      }),
  };
}
