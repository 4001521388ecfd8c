import { expect, test } from 'vitest';
import { Credits } from '../../operator/billing/budgets/credits.ts';
import {
  API_TOKEN,
  NOW,
  quietBudgets,
  quietDiscovery,
  startTestServer,
  testClock,
  testTenant,
} from '../../operator/http/testing/test-server.ts';
import { createMemoryLedger } from '../../operator/ledger/testing/memory-ledger.ts';
import { signedFromNanos } from '../../operator/model/decimal.ts';
import { beginTrial, TRIAL } from './trial-tenant.ts';

const { tenant, currency } = TRIAL;
const counts = { kind: 'money', currency } as const;
/** A cent, in the units of a budget. */
const CENT = 10n ** 19n;

/** An operator whose credits and used amount are as the test says. */
async function startOperator({
  add = (credits, request) => credits.add(request),
  prepaidUsed = () => 0n,
}: {
  readonly add?: (
    credits: Credits,
    ...given: Parameters<Credits['add']>
  ) => ReturnType<Credits['add']>;
  readonly prepaidUsed?: () => bigint;
}) {
  const ledger = createMemoryLedger();
  const credits = new Credits(ledger, () => 60_000, testClock);
  const server = await startTestServer({
    ledger,
    views: {
      discovery: quietDiscovery({ tenants: () => [testTenant(tenant)] }),
      credits: { add: (request) => add(credits, request), list: (id) => credits.list(id) },
      budgets: { ...quietBudgets, prepaidUsed, prepaidCounts: () => counts },
    },
  });
  const given = async (): Promise<readonly string[]> =>
    (await Array.fromAsync(credits.list())).map(({ amount }) => amount);
  const begin = (log: string[] = []) =>
    beginTrial({
      address: `http://127.0.0.1:${server.port}`,
      apiToken: API_TOKEN,
      log: (line) => log.push(line),
      signal: AbortSignal.timeout(20_000),
    });
  return { ledger, credits, given, begin, [Symbol.asyncDispose]: () => server.close() };
}

test('the tenant is not credited, or twice, because the answer to its credit was lost', async () => {
  let calls = 0;
  await using operator = await startOperator({
    add: async (credits, request) => {
      calls += 1;
      if (calls === 1) return { kind: 'failed', cause: 'retryable', message: 'no database' };
      const outcome = await credits.add(request);
      if (calls === 2) throw new Error('the answer is lost');
      return outcome;
    },
  });
  // There is no portal here: that is no reason to say that the credit failed.
  expect(await operator.begin()).toStrictEqual({ link: undefined });
  expect([calls, await operator.given()]).toStrictEqual([3, ['0.1']]);
});

test('a second run tops up before the time between the runs is paid, and the tenant is out of money at once', async () => {
  let reads = 0;
  let used = 5n * CENT;
  await using operator = await startOperator({
    prepaidUsed: () => {
      reads += 1;
      return used;
    },
  });
  const { ledger, credits, given } = operator;
  await credits.add({ tenant, key: 'first run', amount: signedFromNanos(100_000_000n), counts });
  await ledger.append({ events: [], windowEnd: NOW - 60_000 });
  const begun = operator.begin();
  await expect.poll(() => reads, { timeout: 10_000 }).toBeGreaterThan(1);
  expect(await given()).toStrictEqual(['0.1']);
  used = 25n * CENT;
  await ledger.append({ events: [], windowEnd: NOW + 60_000 });
  await begun;
  // Of 0.35 in all, 0.25 is used.
  expect((await given()).toSorted()).toStrictEqual(['0.1', '0.25']);
});
