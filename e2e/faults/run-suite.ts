import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Plan } from './plan.ts';
import { runPlan, type RunReport } from './run-plan.ts';
import { createSubjectPool } from './subject/subject-pool.ts';
import { startVendors } from './vendors/vendors.ts';

export interface SuiteOptions {
  /** How many runs at a time. */
  readonly jobs: number;
  /** The operator's syncs do nothing. */
  readonly withoutSync: boolean;
  /** The operator's record of what is in flight is not kept. */
  readonly withoutInFlight: boolean;
}

export interface SuiteRun extends RunReport {
  readonly plan: Plan;
  readonly seconds: number;
}

/** What all runs came to. */
export interface Totals {
  readonly runs: number;
  readonly lost: number;
  readonly duplicated: number;
  readonly undetected_corruption: number;
}

/** Runs plans, some at a time; `onRun` hears of each as it ends. */
export async function runSuite(
  plans: readonly Plan[],
  options: SuiteOptions,
  onRun: (run: SuiteRun) => void,
): Promise<Totals> {
  const scratch = mkdtempSync(join(memoryDirectory(), 'faults-'));
  const dataRoot = join(scratch, 'data');
  const copyRoot = join(scratch, 'copies');
  mkdirSync(dataRoot);
  const vendors = startVendors();
  const subjects = createSubjectPool({ scratch, withoutSync: options.withoutSync });
  const waiting = [...plans];
  const totals = { runs: 0, lost: 0, duplicated: 0, undetected_corruption: 0 };
  const work = async (): Promise<void> => {
    for (let plan = waiting.shift(); plan !== undefined; plan = waiting.shift()) {
      const startedAt = performance.now();
      const { withoutInFlight } = options;
      const place = { dataRoot, copyRoot, vendors, subjects };
      const report = await runPlan(plan, { ...place, withoutInFlight });
      totals.runs += 1;
      totals.lost += report.lost;
      totals.duplicated += report.duplicated;
      totals.undetected_corruption += report.undetectedCorruption;
      onRun({ ...report, plan, seconds: (performance.now() - startedAt) / 1_000 });
    }
  };
  try {
    await Promise.all(Array.from({ length: options.jobs }, work));
    return totals;
  } finally {
    await subjects.close();
    vendors.close();
    rmSync(scratch, { recursive: true, force: true });
  }
}

export function isSound({ lost, duplicated, undetectedCorruption, wrong }: RunReport): boolean {
  return lost + duplicated + undetectedCorruption + wrong.length === 0;
}

/** Syncing is simulated, so that memory will do and is quick. */
function memoryDirectory(): string {
  return existsSync('/dev/shm') ? '/dev/shm' : tmpdir();
}
