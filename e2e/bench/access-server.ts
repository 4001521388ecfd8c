/**
 * The operator's HTTP API with an intake on disk, in a process of its own, for the access bench.
 * 100 tenants have a prepaid balance and tokens of five models that no window has closed. Sends its
 * parent the port it listens on.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Registry } from 'prom-client';
import { BudgetAccount } from '../../operator/billing/budgets/account.ts';
import { budgetLeft } from '../../operator/billing/budgets/budget-left.ts';
import { planPrices } from '../../operator/billing/usage/plan-prices.ts';
import { DESTINATIONS } from '../../operator/destinations/registry.ts';
import { createHttpServer } from '../../operator/http/server.ts';
import { quietViews } from '../../operator/http/testing/test-server.ts';
import { AccessCheck } from '../../operator/intake/access-check.ts';
import { silentLogger } from '../../operator/ledger/testing/level-ledger.ts';
import type { Budget } from '../../operator/model/budget.ts';
import { COST_PLACES } from '../../operator/model/pricing/charges.ts';
import { bookOf, flat, priceOf } from '../../operator/model/pricing/testing/price-books.ts';
import { loadEnvironment } from '../../operator/settings/load-environment.ts';
import { systemClock } from '../../operator/telemetry/system-clock.ts';
import { openIntake } from './open-intake.ts';

const TENANTS = 100;
const HOUR_MS = 3_600_000;
const METRIC = 'tenant_inference_tokens';

const directory = await mkdtemp(join(tmpdir(), 'meterfeed-bench-'));
const [, , token = ''] = process.argv;
const loaded = loadEnvironment(
  { ADAPTERS: 'noop', LISTEN_ADDR: '127.0.0.1:0', INGEST_TOKEN: `${token};use=access` },
  DESTINATIONS,
);
if (loaded.kind !== 'loaded') throw new Error(JSON.stringify(loaded));
const { settings } = loaded;
const { ledger, held, intake } = await openIntake(directory);
for (let index = 0; index < TENANTS * 15; index += 1) await report(index);
void intake.run(new AbortController().signal);

const counts = { kind: 'money', currency: 'EUR' } as const;
const pricesOf = planPrices([bookOf([priceOf(METRIC, flat(0.000_005))])], () => 'tenant-standard');
const period = { from: Date.now() - HOUR_MS, to: Number.POSITIVE_INFINITY };
const budget: Budget = {
  counts,
  amount: 10n ** BigInt(COST_PLACES),
  period: { kind: 'prepaid' },
  thresholds: [],
  atLimit: 'suspend',
};
const accounts = new Map(
  Array.from({ length: TENANTS }, (_, index) => {
    const tenant = `tenant-${index}`;
    return [tenant, new BudgetAccount({ tenant, counts, period, pricesOf })];
  }),
);
const access = new AccessCheck({
  budgets: {
    staleMs: 0,
    position: 0,
    left: (tenant, open) => {
      const account = accounts.get(tenant);
      const given = { open, state: 'active', maySuspend: true } as const;
      const credited = budget.amount;
      return account && budgetLeft({ budget, credited, account }, given, Date.now());
    },
  },
  openUsage: (tenant, position) => intake.openSums(tenant, position),
  isKnown: (tenant) => held.isKnown(tenant),
  billingState: () => ({ state: 'active', reason: '', manual: false }),
  isSpared: () => false,
});
const server = createHttpServer({
  version: 'bench',
  views: { ...quietViews(() => settings), held, intake, access },
  ledger,
  clock: systemClock,
  logger: silentLogger,
  metrics: new Registry(),
  totals: () => undefined,
});
const { main } = await server.listen(new AbortController().signal);
process.send?.(main.port);
process.once('disconnect', () => {
  void rm(directory, { recursive: true, force: true }).finally(() => process.exit(0));
});

/** Reports one request: each tenant uses three kinds of tokens of five models. */
async function report(index: number): Promise<void> {
  const tenant = `tenant-${index % TENANTS}`;
  const choice = Math.floor(index / TENANTS);
  const kind = ['input', 'output', 'cache_read'][choice % 3] ?? '';
  const dimensions = { model: `model-${choice % 5}`, token_type: kind };
  const quantities = [{ metric: METRIC, dimensions, quantity: '100' }];
  const id = `request-${index}`;
  const request = { key: id, source: 'bench', id, subject: tenant, tenant, at: Date.now() };
  const outcome = await intake.accept([{ ...request, quantities }], 'bench');
  if (outcome.kind !== 'taken') throw new Error(outcome.message);
}
