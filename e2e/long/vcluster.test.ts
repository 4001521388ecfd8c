import { expect, test } from 'vitest';
import { measure } from '../vcluster/measure.ts';

/** `npm run e2e:vcluster`, as one of the long suites. */
test('two real vClusters are billed something else than what they used', async () => {
  const { figures, unlisted, pods } = await measure({
    seed: 1,
    log: (line) => console.error(line),
  });
  expect(pods).toBeGreaterThan(30);
  expect(figures.length).toBeGreaterThanOrEqual(12);
  for (const { tenant, metric, beyond_arrival: error, worst } of figures) {
    expect(error, `${tenant}: ${metric}: ${worst}`).toBeLessThanOrEqual(1e-4);
  }
  expect(unlisted).toEqual([]);
}, 1_200_000);
