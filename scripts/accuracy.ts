import { parseArgs } from 'node:util';
import {
  API_SERVER_FLAGS,
  isSound,
  largestError,
  measureAccuracy,
  overbilledIn,
  unsaidIn,
} from '../e2e/accuracy/accuracy.ts';
import { startEphemeralControlPlane } from '../e2e/control-plane/ephemeral.ts';
import { createKubectl } from '../e2e/control-plane/kubectl.ts';

/**
 * `npm run accuracy -- --seed S --minutes M`: runs a simulated cluster on a real API server, kills
 * and restarts everything in between, and compares the bills with the truth. Prints one JSON line
 * for each metric. Ends with 1 if anything that was visible throughout is billed wrongly by more
 * than a millionth.
 * With `--stop-minutes M` it kills the operator once in the middle of the run, and starts it again
 * after M minutes. It then also ends with 1 if a kind has no `unseen` gap, or if a watch could
 * resume.
 */
const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    minutes: { type: 'string', default: '10' },
    'stop-minutes': { type: 'string' },
  },
});
const TARGET = 1e-6;
const seed = Number(values.seed);
const minutes = Number(values.minutes);
if (!Number.isInteger(seed)) throw new RangeError(`accuracy: --seed: no number: "${values.seed}"`);
const { 'stop-minutes': stop } = values;
const stopMs = stop === undefined ? undefined : Number(stop) * 60_000;
if (stopMs !== undefined && !(stopMs > 0 && stopMs < minutes * 60_000)) {
  throw new RangeError(`accuracy: --stop-minutes: above 0, and less than --minutes: "${stop}"`);
}
if (!(minutes > 0)) throw new RangeError(`accuracy: --minutes: above 0: "${values.minutes}"`);

const plane = await startEphemeralControlPlane({ apiServerFlags: API_SERVER_FLAGS });
try {
  const result = await measureAccuracy({
    plane,
    kubectl: createKubectl(plane.kubectl, plane.kubeconfigPath),
    seed,
    durationMs: minutes * 60_000,
    stopMs,
    log: (line) => console.error(line),
  });
  const { metrics, undated, uncertain, late, ...rest } = result;
  for (const figures of [...metrics, ...undated, ...uncertain.worstResumed, ...late]) {
    console.log(JSON.stringify(figures));
  }
  const maximum = largestError(result);
  const decision = {
    maximum,
    target: TARGET,
    overbilled: overbilledIn(result),
    unsaid: unsaidIn(result),
    uncertain_seconds_max: uncertain.most,
    uncertain_seconds_max_resumed: uncertain.mostResumed,
  };
  console.log(JSON.stringify({ ...decision, ...rest }));
  process.exitCode = maximum <= TARGET && isSound(result) ? 0 : 1;
} finally {
  await plane.stop();
}
