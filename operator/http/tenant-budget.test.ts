import { expect, test } from 'vitest';
import type { BudgetState } from '../billing/budgets/budget-state.ts';
import { budgetOf } from './portal/testing/budget.ts';
import {
  API_TOKEN,
  quietBudgets,
  quietDiscovery,
  startTestServer,
  testTenant,
} from './testing/test-server.ts';

test('a tenant whose prepaid balance was never credited cannot be looked at', async () => {
  const state = budgetOf('acme');
  const prepaid: BudgetState = {
    ...state,
    budget: { ...state.budget, period: { kind: 'prepaid' } },
    period: { from: Infinity, to: Infinity },
  };
  const server = await startTestServer({
    views: {
      discovery: quietDiscovery({ tenants: () => [testTenant('acme')] }),
      budgets: { ...quietBudgets, of: () => prepaid },
    },
  });
  const { status, json } = await server.call('GET', '/api/v1/tenants/acme', { token: API_TOKEN });
  await server.close();
  expect(status).toBe(200);
  const { budget } = json as { readonly budget: Record<string, unknown> };
  expect(budget).toMatchObject({ period: 'prepaid', amount: '500.00', state: 'active' });
  expect(Object.keys(budget)).not.toContain('period_start');
});
