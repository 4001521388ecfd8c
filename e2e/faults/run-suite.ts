import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { MonthPlan } from '../months/month-plan.ts';
import { runMonth } from '../months/month-run.ts';
import type { DestinationName } from './destinations.ts';
import type { KafkaBrokers } from './kafka/brokers.ts';
import type { Plan } from './plan.ts';
import { runPlan, type RunReport } from './run-plan.ts';
import { createSubjectPool } from './subject/subject-pool.ts';
import { startVendors, type Vendor } from './vendors/vendors.ts';

/** Safeguards that are taken away, to see that they are missed. */
export interface Omissions {
  /** The operator's syncs do nothing. */
  readonly withoutSync: boolean;
  /** The operator's record of what is in flight is not kept. */
  readonly withoutInFlight: boolean;
  /** An invoice lacks a line, of which nobody but the vendor knows. */
  readonly withoutLine: boolean;
  /** Nothing that is taken away: tenants have prepaid balances as well. */
  readonly budgets?: boolean;
}

export const NOTHING_OMITTED: Omissions = {
  withoutSync: false,
  withoutInFlight: false,
  withoutLine: false,
};

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
  readonly invoice_mismatch: number;
}

/** The processes that plans are lived through in. */
export interface Suite {
  run(plan: Plan): Promise<SuiteRun>;
  close(): Promise<void>;
}

/** `brokers` are needed by plans that feed Kafka, and are not closed with the suite. */
export function startSuite(
  { withoutSync, withoutInFlight, withoutLine, budgets = false }: Omissions,
  brokers?: KafkaBrokers,
): Suite {
  const scratch = mkdtempSync(join(memoryDirectory(), 'faults-'));
  const dataRoot = join(scratch, 'data');
  const copyRoot = join(scratch, 'copies');
  mkdirSync(dataRoot);
  const vendors = startVendors();
  const open = (name: DestinationName): Promise<Vendor> => {
    if (name !== 'kafka') return vendors.open(name);
    if (brokers === undefined) throw new Error('faults: no brokers for a plan that feeds Kafka');
    return brokers.open();
  };
  const subjects = createSubjectPool({ scratch, withoutSync });
  return {
    run: async (plan) => {
      const startedAt = performance.now();
      const report =
        plan.month === undefined
          ? await runPlan(plan, { dataRoot, copyRoot, open, subjects, withoutInFlight, budgets })
          : await liveMonths(plan.month, withoutLine);
      return { ...report, plan, seconds: (performance.now() - startedAt) / 1_000 };
    },
    close: async () => {
      await subjects.close();
      vendors.close();
      rmSync(scratch, { recursive: true, force: true });
    },
  };
}

/** Runs plans, `jobs` at a time; `onRun` hears of each as it ends. */
export async function runAll(
  plans: readonly Plan[],
  options: Omissions & { readonly jobs: number; readonly brokers?: KafkaBrokers },
  onRun: (run: SuiteRun) => void,
): Promise<Totals> {
  const suite = startSuite(options, options.brokers);
  const takeNext = createQueue(plans);
  const totals = {
    runs: 0,
    lost: 0,
    duplicated: 0,
    undetected_corruption: 0,
    invoice_mismatch: 0,
  };
  const work = async (_: unknown, job: number): Promise<void> => {
    for (let plan = takeNext(job); plan !== undefined; plan = takeNext(job)) {
      const run = await suite.run(plan);
      totals.runs += 1;
      totals.lost += run.lost;
      totals.duplicated += run.duplicated;
      totals.undetected_corruption += run.undetectedCorruption;
      totals.invoice_mismatch += run.invoiceMismatch;
      onRun(run);
    }
  };
  try {
    await Promise.all(Array.from({ length: options.jobs }, work));
    return totals;
  } finally {
    await suite.close();
  }
}

/**
 * Months are lived in this process, lives in processes of their own: so that neither waits for the other, the first
 * job begins with the months, and the rest with everything else.
 */
function createQueue(plans: readonly Plan[]): (job: number) => Plan | undefined {
  const months = plans.filter(({ month }) => month !== undefined);
  const others = plans.filter(({ month }) => month === undefined);
  return (job) =>
    job === 0 ? (months.shift() ?? others.shift()) : (others.shift() ?? months.shift());
}

export function isSound(run: RunReport): boolean {
  const { lost, duplicated, undetectedCorruption, invoiceMismatch, wrong } = run;
  return lost + duplicated + undetectedCorruption + invoiceMismatch + wrong.length === 0;
}

async function liveMonths(month: MonthPlan, withoutLine: boolean): Promise<RunReport> {
  const report = await runMonth(month, { withoutLine });
  return { ...report, undetectedCorruption: 0, repeats: 0, ends: ['completed'] };
}

/** Syncing is simulated, so that memory will do and is quick. */
function memoryDirectory(): string {
  return existsSync('/dev/shm') ? '/dev/shm' : tmpdir();
}
