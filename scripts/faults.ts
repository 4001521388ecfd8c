import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import {
  accidentOf,
  accidentsOf,
  type PostgresSuiteOptions,
  startPostgresSuite,
} from '../e2e/faults/postgres/run-suite.ts';
import { runIntake } from '../e2e/faults/intake/run-intake.ts';
import { startPostgres } from '../operator/ledger/testing/postgres-server.ts';
import { runRig } from '../e2e/rig/run-rig.ts';
import { startKafkaBrokers } from '../e2e/faults/kafka/brokers.ts';
import { withKafka } from '../e2e/faults/kafka/plan.ts';
import type { RunReport } from '../e2e/faults/run-plan.ts';
import { isSound, runAll, type SuiteRun } from '../e2e/faults/run-suite.ts';
import { planOf, SCENARIOS } from '../e2e/faults/scenarios.ts';

/**
 * `npm run faults -- --seed S --runs N`: runs seeded accidents of the ledger and of delivery.
 * Prints one line for each, and in the end the events that were lost, duplicated or silently wrong.
 * It also counts units on no invoice, or on two, without a report. Ends with 1 if any count is not
 * zero.
 * - `--scenario TEXT` runs only accidents whose name contains the text.
 * - `--without-sync`, `--without-in-flight` and `--without-line` remove a protection, to see that
 *   the suite notices.
 * - `--budgets` gives every tenant a prepaid balance, which must equal the credit less ledger ×
 *   price, to the last digit. It also works with `--ledger postgres`.
 * - `--kafka` feeds a topic of three brokers of Apache Kafka besides another destination, one run
 *   at a time.
 * - `--ledger postgres` runs accidents of three PostgreSQL servers, one after the other. With it,
 *   `--without-standby` confirms commits that no standby has.
 * - `--intake` kills a process that takes the requests of AI gateways. Every request that a sender
 *   knows to be taken must count once. With `--ledger postgres` the database is on one server.
 * - `--ledger postgres --rig` runs two processes of the shipped program, one accident a run
 *   (e2e/rig/run-rig.ts).
 */
const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    runs: { type: 'string', default: '100' },
    jobs: { type: 'string', default: String(availableParallelism()) },
    scenario: { type: 'string', default: '' },
    rig: { type: 'boolean', default: false },
    kafka: { type: 'boolean', default: false },
    intake: { type: 'boolean', default: false },
    budgets: { type: 'boolean', default: false },
    ledger: { type: 'string', default: 'files' },
    'without-standby': { type: 'boolean', default: false },
    'without-sync': { type: 'boolean', default: false },
    'without-in-flight': { type: 'boolean', default: false },
    'without-line': { type: 'boolean', default: false },
  },
});
const seed = wholeNumber('--seed', values.seed, 0);
const runs = wholeNumber('--runs', values.runs, 1);
const jobs = wholeNumber('--jobs', values.jobs, 1);
if (values.rig) await runRig({ ...values, seed, runs });
else if (values.intake) await runOnIntake();
else if (values.ledger === 'postgres') await runOnPostgres();
else if (values.ledger === 'files') await runOnFiles();
else throw new RangeError(`faults: --ledger: not one of files, postgres: "${values.ledger}"`);

async function runOnFiles(): Promise<void> {
  const known = SCENARIOS.filter(({ name }) => !values.kafka || !name.startsWith('months '));
  if (!known.some(({ name }) => name.includes(values.scenario))) {
    throw new RangeError(`faults: --scenario: no such scenario: "${values.scenario}"`);
  }

  const seeds: number[] = [];
  for (let next = seed; seeds.length < runs; next += 1) {
    const { scenario, month } = planOf(next);
    if (values.kafka && month !== undefined) continue;
    if (scenario.includes(values.scenario)) seeds.push(next);
  }
  const brokers = values.kafka ? await startKafkaBrokers() : undefined;
  const plans = seeds.map(planOf);
  const options = {
    // Faults of brokers need a destination that writes to them.
    jobs: values.kafka ? 1 : jobs,
    brokers,
    withoutSync: values['without-sync'],
    withoutInFlight: values['without-in-flight'],
    withoutLine: values['without-line'],
    budgets: values.budgets,
  };
  const failed: Described[] = [];
  const onRun = ({ plan, ...report }: SuiteRun): void => {
    const run = { ...report, seed: plan.seed, scenario: plan.scenario };
    console.log(describe(run));
    if (!isSound(run)) failed.push(run);
  };
  try {
    const totals = await runAll(values.kafka ? plans.map(withKafka) : plans, options, onRun);
    for (const run of failed) reportFailure(run);
    console.log(JSON.stringify({ ...totals, ...(brokers && { kafka: brokers.counts() }) }));
  } finally {
    await brokers?.close();
  }
  process.exitCode = failed.length === 0 ? 0 : 1;
}

async function runOnIntake(): Promise<void> {
  const server = values.ledger === 'postgres' ? await startPostgres() : undefined;
  const totals = { runs: 0, requests: 0, kills: 0, repeats: 0, lost: 0, duplicated: 0 };
  try {
    for (let next = seed; totals.runs < runs; next += 1) {
      const run = await runIntake(next, await server?.createDatabase());
      console.log(JSON.stringify(run));
      totals.runs += 1;
      totals.requests += run.requests;
      totals.kills += run.kills;
      totals.repeats += run.repeats;
      totals.lost += run.lost;
      totals.duplicated += run.duplicated;
    }
  } finally {
    await server?.stop();
  }
  console.log(JSON.stringify(totals));
  process.exitCode = totals.lost + totals.duplicated === 0 ? 0 : 1;
}

async function runOnPostgres(): Promise<void> {
  const options: PostgresSuiteOptions = {
    commit: values['without-standby'] ? 'local' : 'standby',
    budgets: values.budgets,
  };
  if (!accidentsOf(options).some(({ name }) => name.includes(values.scenario))) {
    throw new RangeError(`faults: --scenario: no such scenario: "${values.scenario}"`);
  }
  const totals = { runs: 0, lost: 0, duplicated: 0, undetected_corruption: 0, unsound: 0 };
  const suite = startPostgresSuite(options);
  try {
    for (let next = seed; totals.runs < runs; next += 1) {
      if (!accidentOf(next, options).name.includes(values.scenario)) continue;
      const run = await suite.run(next);
      console.log(describe(run));
      totals.runs += 1;
      totals.lost += run.lost;
      totals.duplicated += run.duplicated;
      totals.undetected_corruption += run.undetectedCorruption;
      if (isSound(run)) continue;
      totals.unsound += 1;
      reportFailure(run);
    }
  } finally {
    await suite.close();
  }
  console.log(JSON.stringify(totals));
  process.exitCode = totals.unsound === 0 ? 0 : 1;
}

/** Result of a run in both suites. */
interface Described extends RunReport {
  readonly seed: number;
  readonly scenario: string;
  readonly seconds: number;
}

function reportFailure(run: Described): void {
  const switches = process.argv.slice(2).filter((word) => word.startsWith('--without'));
  const onKafka = values.kafka ? ['--kafka'] : [];
  const onPostgres = ['--ledger', values.ledger];
  const place = values.ledger === 'files' ? onKafka : onPostgres;
  const budgets = values.budgets ? ['--budgets'] : [];
  const replay = [...place, ...budgets, '--seed', run.seed, '--runs', 1, ...switches].join(' ');
  console.error(`failed: ${run.scenario}; alone: npm run faults -- ${replay}`);
  for (const end of run.ends) console.error(`  life: ${end}`);
  for (const text of run.wrong) console.error(`  ${text}`);
}

function describe({ seed, scenario, seconds, ...run }: Described): string {
  const { lost, duplicated, undetectedCorruption, invoiceMismatch, wrong } = run;
  const bad = `lost ${lost} duplicated ${duplicated} undetected ${undetectedCorruption} mismatch ${invoiceMismatch} wrong ${wrong.length}`;
  return [
    String(seed).padStart(6),
    scenario.padEnd(40),
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
