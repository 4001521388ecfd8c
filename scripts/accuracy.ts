import { parseArgs } from 'node:util';
import { measureAccuracy } from '../e2e/accuracy/accuracy.ts';
import { startEphemeralControlPlane } from '../e2e/control-plane/ephemeral.ts';

/**
 * `npm run accuracy -- --seed S --minutes M`: short-lived pods on a real API server, with everything
 * killed and restarted in between, and their bills beside the truth: one JSON line a metric. Ends
 * with 1 when a pod that could be seen whole is billed wrongly by more than a millionth.
 */
const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    minutes: { type: 'string', default: '10' },
  },
});
const TARGET = 1e-6;
const seed = Number(values.seed);
const minutes = Number(values.minutes);
if (!Number.isInteger(seed)) throw new RangeError(`accuracy: --seed: no number: "${values.seed}"`);
if (!(minutes > 0)) throw new RangeError(`accuracy: --minutes: above 0: "${values.minutes}"`);

const plane = await startEphemeralControlPlane({
  // Old versions are forgotten quickly, so that watches expire within a short run.
  apiServerFlags: { 'etcd-compaction-interval': '20s' },
});
try {
  const { metrics, ...rest } = await measureAccuracy({
    plane,
    seed,
    durationMs: minutes * 60_000,
    log: (line) => console.error(line),
  });
  for (const figures of metrics) console.log(JSON.stringify(figures));
  console.log(JSON.stringify({ target: TARGET, ...rest }));
  const isExact = metrics.every(({ maximum }) => maximum <= TARGET);
  const isSound = rest.repeated === 0 && rest.unseen.overbilled.length === 0;
  process.exitCode = isExact && isSound && rest.unaccountedGpuSeconds === 0 ? 0 : 1;
} finally {
  await plane.stop();
}
