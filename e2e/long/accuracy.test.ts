import { describe, expect, test } from 'vitest';
import { API_SERVER_FLAGS, measureAccuracy } from '../accuracy/accuracy.ts';
import { useOwnTestCluster } from '../control-plane/test-cluster.ts';

/** A short run of `npm run accuracy`: ten pod starts a second, and all that can be killed is killed. */
describe('the bills of short-lived pods', () => {
  const cluster = useOwnTestCluster({ apiServerFlags: API_SERVER_FLAGS });

  test('differ from what the API says they used, after kills, API restarts and expired watches', async () => {
    const result = await measureAccuracy({
      plane: cluster,
      kubectl: cluster.kubectl,
      seed: 1,
      durationMs: 90_000,
      log: (line) => console.error(line),
    });
    expect(result.lateFacts, 'the machine is too slow for the settling delay').toBe(0);
    expect(result.pods).toBeGreaterThan(50);
    expect(result.nodes).toBeGreaterThan(0);
    for (const { maximum, worst } of result.metrics) {
      expect(maximum, worst).toBeLessThanOrEqual(1e-6);
    }
    expect(result.undated.length).toBeGreaterThan(3);
    expect(result.undated.flatMap(({ overbilled }) => overbilled)).toEqual([]);
    expect(result.undated.flatMap(({ unsaid }) => unsaid)).toEqual([]);
    expect(result.explained.checked).toBeGreaterThan(100);
    expect(result.explained.wrong).toEqual([]);
    expect(result.repeated).toBe(0);
    expect(result.unaccountedGpuSeconds).toBe(0);
  });
});
