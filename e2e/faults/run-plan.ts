import { join } from 'node:path';
import type { UsageEvent } from '../../operator/model/event.ts';
import { wrongBalances } from './balances.ts';
import { createEstate, type Estate } from './estate.ts';
import type { DestinationName } from './destinations.ts';
import type { Life, Plan } from './plan.ts';
import { createProgress, type Progress } from './progress.ts';
import type { Moment } from './subject/idle-clock.ts';
import type { LedgerEnd, LifeOrder } from './subject/messages.ts';
import type { SubjectPool } from './subject/subject-pool.ts';
import type { Vendor } from './vendors/vendors.ts';
import { type Bill, type Verification, verify } from './verification.ts';
import { eventsOf } from './workload.ts';

export interface RunOptions {
  readonly open: (name: DestinationName) => Promise<Vendor>;
  readonly subjects: SubjectPool;
  /** For directories of ledgers; what the shims watch. */
  readonly dataRoot: string;
  /** For copies, unwatched. */
  readonly copyRoot: string;
  readonly withoutInFlight: boolean;
  /** Every tenant has a prepaid balance, which is checked in the end. */
  readonly budgets: boolean;
}

export interface RunReport extends Verification {
  readonly events: number;
  /** Repeats that the destinations recognised. */
  readonly repeats: number;
  /** How each life ended. */
  readonly ends: readonly string[];
}

/** What another instance does that gets hold of the directory: it delivers. */
const INTRUDER: Life['actions'] = [{ do: 'pass', ms: 3_600_000 }];

let runs = 0;

/** Lives through a plan, then delivers what is left with every fault off, and verifies what came of it. */
export async function runPlan(plan: Plan, options: RunOptions): Promise<RunReport> {
  runs += 1;
  const name = `run-${plan.seed}-${runs}`;
  const estate = createEstate(join(options.dataRoot, name), join(options.copyRoot, name));
  try {
    const vendors: Vendor[] = [];
    for (const destination of plan.destinations) vendors.push(await options.open(destination));
    const progress = createProgress(plan);
    const run = createRun(plan, { ...options, estate, progress, vendors });
    for (const life of plan.lives) await run.live(life);
    const ledger = await run.finish();
    const bills: Bill[] = [];
    for (const vendor of vendors) bills.push({ name: vendor.name, ...(await vendor.bill()) });
    const acknowledged = eventsIn(plan, progress.acknowledged());
    const offered = eventsIn(plan, plan.requests.keys());
    const { inOrder } = run;
    const verification = verify({ acknowledged, offered, ledger, bills, inOrder: inOrder() });
    return {
      ...verification,
      wrong: [
        ...progress.wrong,
        ...verification.wrong,
        ...wrongBalances(ledger?.balances, acknowledged.values()),
      ],
      events: acknowledged.size,
      repeats: bills.reduce((sum, { repeats }) => sum + repeats, 0),
      ends: progress.ends,
    };
  } finally {
    estate.remove();
  }
}

function eventsIn(plan: Plan, numbers: Iterable<number>): Map<string, UsageEvent> {
  const found = new Map<string, UsageEvent>();
  for (const number of numbers) {
    const request = plan.requests[number];
    if (request === undefined) continue;
    for (const event of eventsOf(plan.seed, number, request)) found.set(event.id, event);
  }
  return found;
}

interface RunParts extends Pick<RunOptions, 'subjects' | 'withoutInFlight' | 'budgets'> {
  readonly estate: Estate;
  readonly progress: Progress;
  readonly vendors: readonly Vendor[];
}

function createRun(plan: Plan, parts: RunParts) {
  const { subjects, estate, progress, vendors } = parts;
  let restored = false;

  const orderOf = (life: Partial<Life>, change: Partial<LifeOrder> = {}): LifeOrder => ({
    seed: plan.seed,
    directory: estate.directory(),
    heir: estate.heir,
    start: progress.moment(),
    requests: plan.requests,
    unacknowledged: progress.unacknowledged(),
    actions: life.actions ?? [],
    death: life.death,
    failingSync: life.failingSync,
    destinations: vendors.map(({ name, url }) => ({ name, url })),
    retentionMs: plan.retentionMs,
    segmentEvents: plan.segmentEvents,
    withoutInFlight: parts.withoutInFlight,
    budgets: parts.budgets,
    last: false,
    inspect: false,
    ...change,
  });

  /** Another process opens the directory while the first one stands still; gives the time when it is done. */
  const intrude = async (lockDeleted: boolean, start: Moment): Promise<number> => {
    if (lockDeleted) estate.deleteLocks();
    const order = orderOf({ actions: INTRUDER }, { start, unacknowledged: [] });
    const { end, moment } = await subjects.use(false, (other) => other.live(order));
    const fenced = end?.how === 'unopened' && end.cause === 'fenced';
    if (lockDeleted ? end?.how !== 'completed' : !fenced) {
      progress.wrong.push(`second instance: ${end?.how} ${end?.where ?? ''}`);
    }
    return moment.elapsed;
  };

  const liveDamaged = async (damage: NonNullable<Life['damage']>): Promise<void> => {
    const forgetLater = progress.snapshot();
    const { what, restore } = estate.damage(damage);
    const order = orderOf({}, { inspect: true });
    const report = await subjects.use(false, (subject) => subject.live(order));
    progress.note(report, []);
    const isReported = report.end?.how !== 'completed' || report.end.reported.length > 0;
    progress.ends.push(`${what}: ${isReported ? 'reported' : 'harmless'}`);
    if (!isReported) return;
    // As an operator would: the snapshot is put back, and what is newer is measured again.
    restored = true;
    forgetLater();
    restore();
  };

  return {
    /** What was measured again after a snapshot may come in another order. */
    inOrder: () => !restored,
    live: async (life: Life): Promise<void> => {
      const { death, powerCut } = life;
      await subjects.use(plan.faultyDisk, async (subject) => {
        const baseline = powerCut === undefined ? undefined : estate.remember();
        const report = await subject.live(orderOf(life), {
          ...(death?.when.kind === 'time' && { killAfterMs: death.when.ms }),
          onWaiting: intrude,
        });
        progress.note(report, life.actions);
        progress.noteFalseAlarms(report);
        if (baseline === undefined || subject.trace === undefined) estate.inherit(report);
        else estate.cutPower(report, baseline, subject.trace, powerCut?.seed ?? 0);
      });
      progress.pass(life.downtimeMs);
      if (life.damage !== undefined) await liveDamaged(life.damage);
    },
    finish: async (): Promise<LedgerEnd | undefined> => {
      const order = orderOf({}, { last: true, inspect: true });
      const report = await subjects.use(false, (subject) => subject.live(order));
      progress.note(report, []);
      progress.noteFalseAlarms(report);
      progress.noteEnd(report.end?.ledger);
      return report.end?.ledger;
    },
  };
}
