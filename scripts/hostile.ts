import { parseArgs } from 'node:util';
import { describePlan, planOf } from '../e2e/hostile/attacks/plan.ts';
import { isSound } from '../e2e/hostile/observer/evaluation.ts';
import { selfCheck } from '../e2e/hostile/self-check.ts';
import { describeFailure, runSuite } from '../e2e/hostile/suite.ts';

/**
 * `npm run hostile -- --seed S --runs N`: runs seeded attacks of a hostile tenant and of strangers
 * on the shipped operator, beside honest tenants. The last line is the result. Ends with 1 unless
 * every attack failed.
 * - `--run K` runs one attack alone, `--run K-L` a range.
 * - `--self-check` plants bugs in the operator, and checks that each is counted.
 * - `--jobs N` is the number of runs that share a window.
 * - `--only TEXT` runs only attacks whose kind or name contains the text.
 */
const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    runs: { type: 'string', default: '100' },
    run: { type: 'string' },
    jobs: { type: 'string', default: '8' },
    restart: { type: 'string', default: '4' },
    only: { type: 'string', default: '' },
    'self-check': { type: 'boolean', default: false },
  },
});
const seed = wholeNumber('--seed', values.seed, 0);
const runs = wholeNumber('--runs', values.runs, 1);
const jobs = wholeNumber('--jobs', values.jobs, 1);

process.exitCode = values['self-check'] ? await check() : await attack();

async function attack(): Promise<number> {
  const numbers =
    values.run === undefined
      ? Array.from({ length: runs }, (_, index) => index)
      : numbersOf(values.run);
  const plans = numbers
    .map((run) => planOf(seed, run))
    .map(({ run, attacks }) => ({
      run,
      attacks: attacks.filter(({ kind, name }) => `${kind}: ${name}`.includes(values.only)),
    }))
    .filter(({ attacks }) => attacks.length > 0);
  const byRun = new Map(plans.map((plan) => [plan.run, plan]));
  const { totals, memoryLimitMiB } = await runSuite(plans, {
    jobs,
    restartEvery: wholeNumber('--restart', values.restart, 1),
    failed: (failure) => {
      console.error(describeFailure(failure, seed));
      for (const run of failure.runs) {
        const plan = byRun.get(run);
        if (plan !== undefined) console.error(`  ${describePlan(plan)}`);
      }
    },
    progress: (now) => console.error(JSON.stringify(now)),
  });
  console.log(JSON.stringify(totals));
  return isSound(totals, memoryLimitMiB) ? 0 : 1;
}

async function check(): Promise<number> {
  const results = await selfCheck((line) => console.error(line));
  for (const result of results) console.log(JSON.stringify(result));
  return results.every(({ seen }) => seen) ? 0 : 1;
}

/** `7`, or `32-47`: the runs that share the window of a failure. */
function numbersOf(text: string): readonly number[] {
  const [first = '', last = first] = text.split('-', 2);
  const from = wholeNumber('--run', first, 0);
  const to = wholeNumber('--run', last, from);
  return Array.from({ length: to - from + 1 }, (_, index) => from + index);
}

function wholeNumber(name: string, text: string, least: number): number {
  const number = Number(text);
  if (Number.isSafeInteger(number) && number >= least) return number;
  throw new RangeError(`hostile: ${name}: not a whole number from ${least}: "${text}"`);
}
