import { expect } from 'vitest';
import type { Settings } from '../../../settings/settings.ts';
import { createSettingsStore } from '../../../settings/settings-store.ts';
import type { TenantCluster } from '../../../discovery/tenant-cluster.ts';
import type { RawObject } from '../../../kubernetes/source.ts';
import { createCapturingLogger } from '../../../kubernetes/testing/capturing-logger.ts';
import type { ManualClock } from '../../../kubernetes/testing/manual-clock.ts';
import type { Ledger } from '../../../ledger/ledger.ts';
import { cluster } from '../../../metering/meters/testing/objects.ts';
import type { Budget } from '../../../model/budget.ts';
import { bookOf, flat, priceOf } from '../../../model/pricing/testing/price-books.ts';
import type { UsageTotals } from '../../usage/usage-totals.ts';
import {
  type Process,
  running,
  settingsOf,
  settled,
  startProcess,
} from '../../../metering/windows/testing/harness.ts';
import { Credits } from '../credits.ts';
import { BudgetLimiter } from '../budget-limiter.ts';
import { BudgetController } from '../budget-controller.ts';
import { PrepaidBalances } from '../prepaid.ts';
import type { BudgetState } from '../budget-state.ts';

export const CPU = 'tenant_cpu_core_hours';
/** Of tenant cluster `a`. */
export const TENANT = 'tenant-tenant-a-a';

/** Budgets that are kept beside windows that are closed, on a clock that the test moves. */
export interface StoreWorld extends AsyncDisposable {
  readonly process: Process;
  readonly controller: BudgetController;
  readonly settings: ReturnType<typeof createSettingsStore>;
  readonly credits: Credits;
  /** The percentages that were reported, in order. */
  readonly reported: readonly number[];
  state(): BudgetState;
  /** A pod of the tenant changes. */
  see(object: RawObject): Promise<void>;
}

export interface StoreWorldOptions {
  readonly clock: ManualClock;
  readonly ledger: Ledger;
  /** The same for windows; absent where they are closed into {@link ledger} itself. */
  readonly windowsLedger?: Ledger;
  readonly totals: Pick<UsageTotals, 'addTo'>;
  readonly budget: Budget;
  readonly environment?: Settings;
  readonly known?: readonly TenantCluster[];
  readonly pods?: readonly RawObject[];
}

export async function startStoreWorld(options: StoreWorldOptions): Promise<StoreWorld> {
  const { clock, ledger, totals, budget, known = [cluster('a')] } = options;
  const process = await startProcess({
    ledger: options.windowsLedger ?? ledger,
    clock,
    objects: { pods: options.pods ?? [running] },
  });
  process.discover(known);
  const settings = createSettingsStore(options.environment ?? settingsOf({}));
  settings.setPriceBook('standard', bookOf([priceOf(CPU, flat(36))], { name: 'standard' }));
  settings.setPolicy({ defaultBudget: budget });
  const logger = createCapturingLogger();
  const reported: number[] = [];
  const guard = new BudgetLimiter({
    ledger,
    enforcement: { applyBudgets: async () => ({ kind: 'written' }), limitedByBudgets: () => [] },
    isSpared: () => false,
    notify: async ({ percent }) => {
      reported.push(percent);
      return { kind: 'notified' };
    },
    clock,
    random: () => 0.5,
    logger,
  });
  const credits = new Credits(ledger, () => 60_000, clock);
  const sources = {
    ledger,
    totals: () => totals,
    settings,
    credits,
    isCharged: () => true,
    clock,
    logger,
  };
  const controller = new BudgetController({
    ...sources,
    prepaid: new PrepaidBalances(sources),
    discovery: {
      known: () => true,
      clusters: () => known,
      tenants: () => [
        {
          id: TENANT,
          displayName: 'a',
          plan: 'standard',
          region: 'r',
          clusters: [],
          createdAt: 0,
        },
      ],
      subscribe: () => () => undefined,
    },
    limiter: guard,
    windows: process.collector,
    pricesKnown: () => true,
  });
  const stop = new AbortController();
  const ended = controller.run(stop.signal);
  await expect.poll(() => controller.list().length).toBe(known.length);
  return {
    process,
    controller,
    settings,
    credits,
    reported,
    state: () => {
      const [status] = controller.list();
      if (status === undefined) throw new Error('no budget is kept');
      return status;
    },
    see: async (object) => {
      process.pods.apply(object);
      await settled();
    },
    async [Symbol.asyncDispose]() {
      stop.abort();
      await clock.advance(0);
      await ended;
      await process.kill();
    },
  };
}
