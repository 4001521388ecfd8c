import { parseArgs } from 'node:util';
import type { Figure } from '../e2e/vcluster/compare.ts';
import { measure } from '../e2e/vcluster/measure.ts';

/**
 * `npm run e2e:vcluster -- --seed S`: runs two real vClusters on a real control plane through a
 * seeded scenario, and compares their bills with the truth. Prints one JSON line for each tenant
 * and metric, and one for all. Ends with 1 if a bill is wrong by more than a ten-thousandth beyond
 * what arrivals explain, or if a pod is on no bill. Needs root, Linux and Go.
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
// An ordinary exit ends all child processes.
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
