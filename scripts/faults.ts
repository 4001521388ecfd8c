import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { isSound, runAll, type SuiteRun } from '../e2e/faults/run-suite.ts';
import { planOf, SCENARIOS } from '../e2e/faults/scenarios.ts';

/**
 * `npm run faults -- --seed S --runs N`: seeded accidents of the ledger and of delivery, one line each,
 * and in the end what was lost, duplicated or silently wrong, and how many units are on no invoice, or on two,
 * without a word. Ends with 1 when anything was. `--scenario TEXT` takes only those whose name contains it;
 * `--without-sync`, `--without-in-flight` and `--without-line` take something away, to see that it is missed.
 */
const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    runs: { type: 'string', default: '100' },
    jobs: { type: 'string', default: String(availableParallelism()) },
    scenario: { type: 'string', default: '' },
    'without-sync': { type: 'boolean', default: false },
    'without-in-flight': { type: 'boolean', default: false },
    'without-line': { type: 'boolean', default: false },
  },
});
const seed = wholeNumber('--seed', values.seed, 0);
const runs = wholeNumber('--runs', values.runs, 1);
const jobs = wholeNumber('--jobs', values.jobs, 1);
if (!SCENARIOS.some(({ name }) => name.includes(values.scenario))) {
  throw new RangeError(`faults: --scenario: no such scenario: "${values.scenario}"`);
}

const seeds: number[] = [];
for (let next = seed; seeds.length < runs; next += 1) {
  if (planOf(next).scenario.includes(values.scenario)) seeds.push(next);
}
const options = {
  jobs,
  withoutSync: values['without-sync'],
  withoutInFlight: values['without-in-flight'],
  withoutLine: values['without-line'],
};
const failed: SuiteRun[] = [];
const totals = await runAll(seeds.map(planOf), options, (run) => {
  console.log(describe(run));
  if (!isSound(run)) failed.push(run);
});
for (const run of failed) {
  const switches = process.argv.slice(2).filter((word) => word.startsWith('--without'));
  const replay = ['--seed', run.plan.seed, '--runs', 1, ...switches].join(' ');
  console.error(`failed: ${run.plan.scenario}; alone: npm run faults -- ${replay}`);
  for (const end of run.ends) console.error(`  life: ${end}`);
  for (const text of run.wrong) console.error(`  ${text}`);
}
console.log(JSON.stringify(totals));
process.exitCode = failed.length === 0 ? 0 : 1;

function describe({ plan, seconds, ...run }: SuiteRun): string {
  const { lost, duplicated, undetectedCorruption, invoiceMismatch, wrong } = run;
  const bad = `lost ${lost} duplicated ${duplicated} undetected ${undetectedCorruption} mismatch ${invoiceMismatch} wrong ${wrong.length}`;
  return [
    String(plan.seed).padStart(6),
    plan.scenario.padEnd(40),
    `${String(run.events).padStart(4)} events`,
    `${String(run.repeats).padStart(4)} repeats`,
    `${seconds.toFixed(2).padStart(6)} s`,
    isSound(run) ? 'ok' : bad,
  ].join('  ');
}

function wholeNumber(name: string, text: string, least: number): number {
  const number = Number(text);
  if (Number.isSafeInteger(number) && number >= least) return number;
  throw new RangeError(`faults: ${name}: not a whole number from ${least}: "${text}"`);
}
