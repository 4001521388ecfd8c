import { parseArgs } from 'node:util';
import type { Figure } from '../e2e/vcluster/compare.ts';
import { measure } from '../e2e/vcluster/measure.ts';

/**
 * `npm run e2e:vcluster -- --seed S`: two real vClusters on a real control plane, a seeded scenario through their own
 * APIs, and their bills beside the truth: one JSON line for each tenant and metric, and one for all. Ends with 1 when a
 * bill is wrong by more than a ten-thousandth, beyond what arrivals explain, or a pod stands in none. Needs root, Linux, Go.
 */
const { values } = parseArgs({ options: { seed: { type: 'string', default: '1' } } });
const TARGET = 1e-4;
const seed = Number(values.seed);
if (!Number.isInteger(seed)) {
  throw new RangeError(`e2e:vcluster: --seed: "${values.seed}": is no whole number`);
}

const began = performance.now();
const log = (line: string): void => {
  const seconds = Math.round((performance.now() - began) / 1000);
  console.error(`[${String(seconds).padStart(4)} s] ${line}`);
};
// An ordinary exit takes along whatever was started.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));
try {
  const { figures, ...rest } = await measure({ seed, log });
  for (const figure of figures) console.log(JSON.stringify(figure));
  const greatest = (of: (figure: Figure) => number): number => Math.max(0, ...figures.map(of));
  const maximum = greatest((figure) => figure.relative_error);
  const beyond_arrival = greatest((figure) => figure.beyond_arrival);
  const wrong = beyond_arrival > TARGET || figures.length === 0 || rest.unlisted.length > 0;
  console.log(JSON.stringify({ maximum, beyond_arrival, target: TARGET, ...rest }));
  process.exitCode = wrong ? 1 : 0;
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
