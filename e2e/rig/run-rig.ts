import { FIGURES, NOTHING_WRONG } from './account.ts';
import { ACCIDENTS, accidentOf } from './accidents.ts';
import { type RigRun, RigSuite } from './suite.ts';

export interface RigOptions {
  readonly seed: number;
  readonly runs: number;
  readonly ledger: string;
  /** Only accidents whose names contain this. */
  readonly scenario: string;
}

/**
 * Two processes of the shipped program on a kube-apiserver and on PostgreSQL with a synchronous standby live through accidents,
 * one a run: `npm run faults -- --ledger postgres --rig --seed S --runs N`. Prints a line for each run and the totals as JSON.
 * The exit code is 1 when anything is wrong.
 */
export async function runRig({ seed, runs, ledger, scenario }: RigOptions): Promise<void> {
  if (ledger !== 'postgres') throw new RangeError('faults: --rig: give --ledger postgres as well');
  if (!ACCIDENTS.some(({ name }) => name.includes(scenario))) {
    throw new RangeError(`faults: --scenario: no such accident: "${scenario}"`);
  }
  // Ends the processes that it started as well, which Ctrl-C does not reach.
  process.once('SIGINT', () => process.exit(130)).once('SIGTERM', () => process.exit(143));
  const totals = { runs: 0, ...NOTHING_WRONG };
  const rig = await RigSuite.start((line) => console.error(line));
  try {
    for (let next = seed; totals.runs < runs; next += 1) {
      if (!accidentOf(next).name.includes(scenario)) continue;
      const run = await rig.run(next);
      console.log(describe(run));
      totals.runs += 1;
      for (const figure of FIGURES) totals[figure] += run.figures[figure];
      if (run.wrong.length > 0) report(run);
    }
  } finally {
    await rig.close();
  }
  console.log(JSON.stringify(totals));
}

function report({ seed, wrong }: RigRun): void {
  process.exitCode = 1;
  console.error(`failed: alone: npm run faults -- --ledger postgres --rig --seed ${seed} --runs 1`);
  for (const text of wrong) console.error(`  ${text}`);
}

function describe({ seed, accident, windows, seconds, figures }: RigRun): string {
  const bad = FIGURES.filter((figure) => figures[figure] > 0).map(
    (figure) => `${figure} ${figures[figure]}`,
  );
  return [
    String(seed).padStart(6),
    accident.padEnd(56),
    `${String(windows).padStart(3)} windows`,
    `${seconds.toFixed(0).padStart(4)} s`,
    bad.length === 0 ? 'ok' : bad.join(' '),
  ].join('  ');
}
