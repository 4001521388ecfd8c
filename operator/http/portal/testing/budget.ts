import type { BudgetState } from '../../../billing/budgets/budget-state.ts';
import { NOW } from '../../testing/test-server.ts';

const EUR = 10n ** 21n;

/** A budget of 500 EUR, of which every tenant has used a quarter. */
export function budgetOf(tenant: string): BudgetState {
  return {
    tenant,
    budget: {
      counts: { kind: 'money', currency: 'EUR' },
      amount: 500n * EUR,
      period: { kind: 'month' },
      thresholds: [80, 100],
      atLimit: 'suspend',
    },
    period: { from: Date.UTC(2026, 10, 1), to: Date.UTC(2026, 11, 1) },
    limit: 500n * EUR,
    used: (12_345n * EUR) / 100n,
    usedInMinorUnits: () => 12_345n,
    usedUpAt: () => NOW + 6 * 86_400_000,
    uncounted: ['tenant_storage_gb_hours'],
    state: 'active',
  };
}
