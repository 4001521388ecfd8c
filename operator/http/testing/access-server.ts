import type { BudgetLeft } from '../../billing/budgets/budget-left.ts';
import { AccessCheck, type AccessCheckOptions } from '../../intake/access-check.ts';
import {
  INGEST_TOKEN,
  startTestServer,
  type TestServer,
  type TestServerOptions,
} from './test-server.ts';

/** A token of each use. */
export const ACCESS = 'access-canary-5b1c90';
export const IN_PATH = 'in-path-canary-77d0c2a94e51';
export const OF_ACME = 'of-acme-canary-0d11';
/** As INGEST_TOKEN. */
export const TOKENS = [
  INGEST_TOKEN,
  `${ACCESS};use=access`,
  `${IN_PATH};use=events|access|path`,
  `${OF_ACME};use=access;tenants=acme`,
].join(',');
const EUR = 10n ** 21n;

/** A budget of 100 EUR of which so much is used. */
export function leftOf(used: bigint, change: Partial<BudgetLeft> = {}): BudgetLeft {
  return {
    budget: {
      counts: { kind: 'money', currency: 'EUR' },
      amount: 100n * EUR,
      period: { kind: 'prepaid' },
      thresholds: [],
      atLimit: 'suspend',
    },
    limit: 100n * EUR,
    used,
    isSpent: used >= 100n * EUR,
    ...change,
  };
}

/** A server whose tenants have this left. */
export function startGateway(
  change: Partial<AccessCheckOptions> & {
    readonly left?: BudgetLeft;
    readonly staleMs?: number;
  } = {},
  options: TestServerOptions = {},
): Promise<TestServer> {
  const access = new AccessCheck({
    budgets: { staleMs: change.staleMs ?? 0, position: 7, left: () => change.left },
    openUsage: () => [],
    isKnown: () => true,
    billingState: () => ({ state: 'active', reason: '', manual: false }),
    isSpared: () => false,
    ...change,
  });
  return startTestServer({
    ...options,
    environment: { INGEST_TOKEN: TOKENS, ...options.environment },
    views: { access },
  });
}
