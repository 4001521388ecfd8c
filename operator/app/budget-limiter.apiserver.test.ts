import { fileURLToPath } from 'node:url';
import { beforeAll, expect, test } from 'vitest';
import { useOwnTestCluster } from '../../e2e/control-plane/test-cluster.ts';
import type { Clock } from '../telemetry/clock.ts';
import { systemClock } from '../telemetry/system-clock.ts';
import { type BudgetWorld, startBudgetWorld } from './testing/budget-world.ts';
import { replaceSpec } from './testing/operator-process.ts';

const POLICY = fileURLToPath(
  new URL('../../config/components/suspension-policy/policy.yaml', import.meta.url),
);
const METERING_POLICY = '/apis/meterfeed.io/v1alpha1/meteringpolicies/default';
const PATIENCE = { timeout: 150_000, interval: 250 };
const TEST_TIMEOUT = { timeout: 600_000 };
/**
 * A suspension ends by then, milliseconds after its cause (docs/how-to/budgets.md#at-the-limit).
 */
const SOON_MS = 2_000;
/** A suspension begins by then after the moment at which nothing is left. */
const MARKED_MS = 5_000;
const ENFORCE = { ENFORCEMENT_MODE: 'enforce' };

const host = useOwnTestCluster();

beforeAll(async () => {
  await host.kubectl(['apply', '--filename', POLICY]);
});

/** Of a core for each hour: so many seconds of the one pod. */
const seconds = (count: number): string => (count / 3600).toFixed(9);

const budget = (amount: string, change: object = {}) => ({
  amount,
  metric: 'tenant_cpu_core_hours',
  period: 'month',
  thresholds: [50, 100],
  atLimit: 'suspend',
  ...change,
});

/** Since when the one pod is counted, by when the API says that ten hours of it will be used up. */
async function countedSince(world: BudgetWorld): Promise<number> {
  await world.setBudget(budget('10'));
  // At the rate of a window in which it has begun, nothing would be left later.
  const left = async () => (await world.usedUpAt()) - systemClock.now();
  await expect.poll(left, PATIENCE).toBeLessThan(10 * 3_600_000);
  return (await world.usedUpAt()) - 10 * 3_600_000;
}

/** When the API server first answers so, tried all the time. */
async function answered(world: BudgetWorld, clock: Clock, status: number): Promise<number> {
  const requested = clock.monotonic();
  while (clock.monotonic() - requested < 60_000) {
    if ((await world.tryPod()) === status) return clock.now();
    await systemClock.sleep(20);
  }
  throw new Error(`the API server does not answer ${status} within a minute`);
}

async function until(clock: Clock, moment: number): Promise<void> {
  await systemClock.sleep(Math.max(0, moment - clock.now()));
}

test(
  'a tenant gets no pods 5 s after its budget is used up, and gets them within 2 s of a larger one, across restarts',
  TEST_TIMEOUT,
  async () => {
    const clock = systemClock;
    await using world = await startBudgetWorld(host, ENFORCE);
    const notes = (percent: number, amount: string): string =>
      expect.stringContaining(`has used ${percent} % of its budget of ${Number(amount)} `);
    await world.runPod('one');
    const since = await countedSince(world);
    const first = since + Math.ceil((clock.now() - since) / 1000 + 15) * 1000;
    const small = seconds((first - since) / 1000);
    await world.setBudget(budget(small));
    await until(clock, first - 200);
    expect(await world.tryPod()).toBe(201);
    const refused = (await answered(world, clock, 403)) - first;
    expect(refused).toBeGreaterThanOrEqual(0);
    expect(refused).toBeLessThanOrEqual(MARKED_MS);
    const reported = [notes(100, small), notes(50, small)];
    await expect.poll(() => world.notices(), PATIENCE).toStrictEqual(reported);

    const second = since + 2 * (first - since);
    const large = seconds((second - since) / 1000);
    await world.setBudget(budget(large, { thresholds: [80, 100] }));
    const raised = clock.now();
    const admitted = (await answered(world, clock, 201)) - raised;
    expect(admitted).toBeLessThanOrEqual(SOON_MS);

    // Crosses while nobody is there.
    await until(clock, second - 3_000);
    await world.stop();
    expect(await world.tryPod()).toBe(201);
    await until(clock, second + 1_000);
    await world.start();
    await expect.poll(() => world.tryPod(), PATIENCE).toBe(403);
    const all = [...reported, notes(100, large), notes(80, large)];
    await expect.poll(() => world.notices(), PATIENCE).toHaveLength(all.length);
    expect(await world.notices()).toStrictEqual(expect.arrayContaining(all));
    await world.stop();
    await world.start();
    await expect.poll(async () => (await world.item())?.state, PATIENCE).toBe('suspended');
    expect(await world.tryPod()).toBe(403);
    expect(await world.notices()).toHaveLength(all.length);

    await replaceSpec(host, METERING_POLICY, { enforcement: { neverSuspend: [world.tenant] } });
    await answered(world, clock, 201);
    const workload = `/apis/apps/v1/namespaces/${world.namespace}/statefulsets/shop`;
    const label = async () => {
      const { metadata } = (await host.call('GET', workload)) as {
        metadata: { labels: Readonly<Record<string, string>> };
      };
      return metadata.labels['meterfeed.io/billing-state'];
    };
    await expect.poll(label, PATIENCE).toBe('warning');
    await replaceSpec(host, METERING_POLICY, {});
    await answered(world, clock, 403);
  },
);

test(
  'a tenant without credit gets no pods, gets them within 2 s of a top-up and until that is used up, while its biller is down',
  TEST_TIMEOUT,
  async () => {
    const clock = systemClock;
    // Nobody listens there: not a single event reaches a billing system in all of this.
    const down = { ADAPTERS: 'webhook', WEBHOOK_URL: 'http://127.0.0.1:9/down' };
    await using world = await startBudgetWorld(host, { ...ENFORCE, ...down });
    await world.runPod('one');
    await world.setBudget(budget('0.01', { period: 'prepaid' }));
    await answered(world, clock, 403);

    const topUp = async (key: string, amount: string): Promise<number> => {
      const before = clock.now();
      await world.credit(key, amount);
      const admitted = (await answered(world, clock, 201)) - before;
      expect(admitted).toBeLessThanOrEqual(SOON_MS);
      return before;
    };
    const refusedWhenUsedUp = async (): Promise<void> => {
      // When a window was closed since, in which something was used.
      await expect.poll(() => world.usedUpAt(), PATIENCE).toBeGreaterThan(clock.now() + 5_000);
      const moment = await world.usedUpAt();
      await until(clock, moment - 500);
      expect(await world.tryPod()).toBe(201);
      const refused = (await answered(world, clock, 403)) - moment;
      expect(refused).toBeGreaterThanOrEqual(-200);
      expect(refused).toBeLessThanOrEqual(MARKED_MS);
    };
    // Of what is credited earlier nothing is used before.
    await until(clock, world.metersFrom);
    await topUp('first', seconds(30));
    await topUp('first', seconds(30));
    await refusedWhenUsedUp();

    // Used up again after a restart, by what was credited meanwhile.
    await world.stop();
    await world.start();
    await expect.poll(() => world.tryPod(), PATIENCE).toBe(403);
    await topUp('second', seconds(60));
    await refusedWhenUsedUp();
    const reported = await world.notices();
    expect(reported).toHaveLength(4);
    expect(new Set(reported).size).toBe(2);
    await expect.poll(() => world.item(), PATIENCE).toMatchObject({ state: 'suspended' });
    expect(await world.item()).not.toHaveProperty('periodEnd');
  },
);

test('a suspended tenant gets pods within 2 s of a new period', TEST_TIMEOUT, async () => {
  const midnight = Math.ceil((Date.now() + 60_000) / 86_400_000) * 86_400_000;
  const early = midnight - 60_000 - Date.now();
  const clock: Clock = { ...systemClock, now: () => Date.now() + early };
  await using world = await startBudgetWorld(host, ENFORCE, clock);
  await world.runPod('one');
  await world.setBudget(budget(seconds(15), { period: 'rolling', days: 1 }));
  await answered(world, clock, 403);
  expect(clock.now()).toBeLessThan(midnight);
  await until(clock, midnight - 500);
  expect(await world.tryPod()).toBe(403);
  const admitted = (await answered(world, clock, 201)) - midnight;
  expect(admitted).toBeGreaterThanOrEqual(0);
  expect(admitted).toBeLessThanOrEqual(SOON_MS);
  await answered(world, clock, 403);
});
