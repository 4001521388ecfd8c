import { expect, test } from 'vitest';
import { useOwnTestCluster } from '../../e2e/control-plane/test-cluster.ts';
import { type BudgetWorld, startBudgetWorld } from './testing/budget-world.ts';

const host = useOwnTestCluster();
const PATIENCE = { timeout: 150_000, interval: 250 };
const TEST_TIMEOUT = { timeout: 300_000 };

/** When the status says that nothing will be left, milliseconds since the epoch. */
async function usedUpAt(world: BudgetWorld): Promise<number> {
  return Date.parse((await world.item())?.usedUpAt ?? '');
}

test(
  'the status says when a budget will be used up, and again when another pod begins',
  TEST_TIMEOUT,
  async () => {
    await using world = await startBudgetWorld(host, {});
    await world.setBudget({ amount: '10', metric: 'tenant_cpu_core_hours', period: 'month' });
    const first = await world.runPod('first');
    // Metering begins with the first whole window, of ten seconds; in that one the pod may have
    // begun.
    const late = async () => (await usedUpAt(world)) - (first + 10 * 3_600_000);
    const isComplete = (by: number): boolean => by >= -1_000 && by <= 10_000;
    await expect.poll(async () => isComplete(await late()), PATIENCE).toBe(true);
    const alone = await usedUpAt(world);
    expect(await world.item()).toMatchObject({
      tenant: world.tenant,
      amount: '10',
      unit: 'tenant_cpu_core_hours',
    });
    const second = await world.runPod('second');
    // Both may have begun before that first window.
    const both = Math.max(second, alone - 10 * 3_600_000);
    const together = both + (alone - both) / 2;
    await expect
      .poll(async () => Math.abs((await usedUpAt(world)) - together), PATIENCE)
      .toBeLessThan(1_500);
  },
);
