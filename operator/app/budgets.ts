import { Credits } from '../billing/budgets/credits.ts';
import { BudgetLimiter } from '../billing/budgets/budget-limiter.ts';
import { BudgetController } from '../billing/budgets/budget-controller.ts';
import { PrepaidBalances } from '../billing/budgets/prepaid.ts';
import { thresholdEvent, thresholdNotice } from '../billing/budgets/threshold-event.ts';
import type { Views } from '../http/views.ts';
import { EventRecorder } from '../kubernetes/events.ts';
import type { BuildContext } from './build-context.ts';
import type { ClusterView } from './cluster-view.ts';
import { whenConfigured } from './custom-resources.ts';
import type { Billing } from './delivery.ts';
import type { Metering } from './metering.ts';
import type { Component } from './components.ts';

/** Budgets and prepaid balances of tenants. */
export interface Budgets {
  readonly budgets: BudgetController;
  readonly limiter: BudgetLimiter;
  readonly views: Required<Pick<Views, 'budgets' | 'credits'>>;
  readonly component: Component;
}

/** Builds the budgets, their limiter and the credits of prepaid balances. */
export function buildBudgets(
  context: BuildContext,
  cluster: ClusterView,
  metering: Metering,
  billing: Billing,
): Budgets {
  const { ledger, logger, clock, random, settings, customResources } = context;
  const { delivery, totals } = billing.stream;
  const windowMs = () => settings.current().metering.windowMs;
  const credits = new Credits(ledger, windowMs, clock);
  const events = new EventRecorder(context);
  const guard = new BudgetLimiter({
    ledger,
    clock,
    random,
    logger,
    enforcement: billing.enforcement,
    isSpared: (tenant) => settings.current().enforcement.neverSuspend.includes(tenant),
    notify: async (reached, reportedTo) => {
      const regarding = customResources.giverOf(reached.override);
      const [isRecorded, { notified: reported, waiting }] = await Promise.all([
        regarding !== undefined &&
          events.recordOnce(thresholdEvent(reached, regarding), reached.id),
        delivery.notify(thresholdNotice(reached), reportedTo),
      ]);
      if (isRecorded && waiting.length === 0) return { kind: 'notified' };
      const reason = waiting[0] ?? 'the API server does not accept its Event';
      return { kind: 'waiting', notified: reported, reason };
    },
  });
  const sources = {
    ledger,
    clock,
    logger,
    credits,
    totals,
    settings,
    isCharged: (metric: string) => metering.catalog().find(metric)?.informational !== true,
  };
  const budgets = new BudgetController({
    ...sources,
    limiter: guard,
    prepaid: new PrepaidBalances(sources),
    discovery: cluster.discovery,
    windows: metering.windows,
    pricesKnown: () => customResources.pricesKnown(),
  });
  return {
    budgets,
    limiter: guard,
    views: { budgets, credits },
    component: whenConfigured(customResources, {
      name: 'budgets',
      run: (signal) => budgets.run(signal),
    }),
  };
}
