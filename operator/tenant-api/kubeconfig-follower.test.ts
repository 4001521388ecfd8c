import { setImmediate } from 'node:timers';
import pLimit from 'p-limit';
import { expect, test, vi } from 'vitest';
import { createCapturingLogger } from '../kubernetes/testing/capturing-logger.ts';
import { createManualClock } from '../kubernetes/testing/manual-clock.ts';
import { Secret } from '../model/secret.ts';
import { TimeSlice } from '../telemetry/time-slice.ts';
import { KubeconfigFollower } from './kubeconfig-follower.ts';
import { tenantCluster } from './testing/tenant-clusters.ts';

/** What parsing one takes. */
const PARSE_MS = 5;

test('hundreds of kubeconfigs that arrive at the same moment are parsed in one time slice', async () => {
  const clock = createManualClock();
  let worked = 0;
  vi.spyOn(clock, 'monotonic').mockImplementation(() => worked);
  let [inOneSlice, most, all] = [0, 0, 0];
  const shared = {
    source: () =>
      Promise.resolve({ kind: 'found', text: new Secret('{}'), where: 'a Secret' } as const),
    open: () => {
      worked += PARSE_MS;
      all += 1;
      inOneSlice += 1;
      most = Math.max(most, inOneSlice);
      setImmediate(() => {
        inOneSlice = 0;
      });
      return { kind: 'refused', reason: 'not a kubeconfig' } as const;
    },
    limit: pLimit(20),
    slice: new TimeSlice(clock),
    queryMs: () => 0,
    clock,
    random: () => 0.5,
    logger: createCapturingLogger(),
    onChange: () => undefined,
  };
  const stop = new AbortController();
  const followers = Array.from({ length: 300 }, (_, index) => {
    const cluster = tenantCluster(`c${index}`);
    return new KubeconfigFollower({ ...shared, cluster }).run(stop.signal);
  });
  await expect.poll(() => all).toBe(300);
  stop.abort();
  await Promise.all(followers);
  expect(most).toBeLessThanOrEqual(10);
});
