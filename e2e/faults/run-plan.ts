import { cpSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { UsageEvent } from '../../operator/usage/event.ts';
import { damageDirectory } from './disk/damage.ts';
import { type Baseline, clearTrace, cutPower, takeBaseline } from './disk/power-cut.ts';
import type { Life, Plan } from './plan.ts';
import type { Moment } from './subject/idle-clock.ts';
import type { LedgerEnd, LifeOrder } from './subject/messages.ts';
import type { LifeReport, Subject } from './subject/subject.ts';
import type { SubjectPool } from './subject/subject-pool.ts';
import { judge, type Verdict } from './verdict.ts';
import type { Vendor, Vendors } from './vendors/vendors.ts';
import { eventsOf } from './workload.ts';

export interface RunOptions {
  readonly vendors: Vendors;
  readonly subjects: SubjectPool;
  /** For directories of ledgers; what the shims watch. */
  readonly dataRoot: string;
  /** For copies, unwatched. */
  readonly copyRoot: string;
  readonly withoutInFlight: boolean;
}

export interface RunReport extends Verdict {
  readonly events: number;
  /** Repeats that the destinations recognised. */
  readonly repeats: number;
  /** How each life ended. */
  readonly ends: readonly string[];
}

/** Room to write in, between lives. */
interface State {
  directory: string;
  moment: Moment;
  acknowledged: Set<number>;
  /** Requests up to here have been offered. */
  offered: number;
}

/** What another instance does that gets hold of the directory: it delivers. */
const INTRUDER = [{ do: 'pass', ms: 3_600_000 }] as const;

let directories = 0;

/** Lives through a plan, then delivers what is left with every fault off, and takes the verdict. */
export async function runPlan(plan: Plan, options: RunOptions): Promise<RunReport> {
  const vendors: Vendor[] = [];
  for (const name of plan.destinations) vendors.push(await options.vendors.open(name));
  const name = `run-${plan.seed}-${(directories += 1)}`;
  const root = join(options.dataRoot, name);
  const copies = join(options.copyRoot, name);
  mkdirSync(root, { recursive: true });
  mkdirSync(copies, { recursive: true });
  try {
    const run = createRun(plan, vendors, { root, copies }, options);
    for (const life of plan.lives) await run.live(life);
    const ledger = await run.finish();
    const bills = [];
    let repeats = 0;
    for (const vendor of vendors) {
      const bill = await vendor.bill();
      bills.push({ name: vendor.name, billed: bill.billed });
      repeats += bill.repeats;
    }
    const eventsIn = (numbers: Iterable<number>): Map<string, UsageEvent> => {
      const found = new Map<string, UsageEvent>();
      for (const number of numbers) {
        const request = plan.requests[number];
        if (request === undefined) continue;
        for (const event of eventsOf(plan.seed, number, request)) {
          found.set(event.id, event);
        }
      }
      return found;
    };
    const acknowledged = eventsIn(run.acknowledged());
    const offered = eventsIn(plan.requests.keys());
    const verdict = judge({
      acknowledged,
      offered,
      ledger,
      bills,
      inOrder: run.inOrder(),
    });
    return {
      ...verdict,
      wrong: [...run.wrong, ...verdict.wrong],
      events: acknowledged.size,
      repeats,
      ends: run.ends,
    };
  } finally {
    rmSync(root, { recursive: true, force: true });
    rmSync(copies, { recursive: true, force: true });
  }
}

function createRun(
  plan: Plan,
  vendors: readonly Vendor[],
  { root, copies }: { readonly root: string; readonly copies: string },
  options: RunOptions,
) {
  const state: State = {
    directory: join(root, 'data-0'),
    moment: { elapsed: 0, stepped: 0 },
    acknowledged: new Set(),
    offered: -1,
  };
  const ends: string[] = [];
  const wrong: string[] = [];
  let generation = 0;
  let restored = false;
  const nextDirectory = (): string => join(root, `data-${(generation += 1)}`);

  const orderOf = (
    life: Pick<Life, 'actions' | 'death' | 'failingSync'>,
    change: Partial<LifeOrder>,
  ): LifeOrder => {
    const unacknowledged = plan.requests
      .map((_, number) => number)
      .filter((number) => number <= state.offered && !state.acknowledged.has(number));
    return {
      seed: plan.seed,
      directory: state.directory,
      heir: join(copies, 'heir'),
      start: state.moment,
      requests: plan.requests,
      unacknowledged,
      actions: life.actions,
      ...(life.death !== undefined && { death: life.death }),
      ...(life.failingSync !== undefined && { failingSync: life.failingSync }),
      destinations: vendors.map(({ name, url }) => ({ name, url })),
      retentionMs: plan.retentionMs,
      segmentEvents: plan.segmentEvents,
      withoutInFlight: options.withoutInFlight,
      last: false,
      inspect: false,
      ...change,
    };
  };
  const note = (report: LifeReport, life: Pick<Life, 'actions'>): void => {
    for (const request of report.acknowledged) state.acknowledged.add(request);
    for (const action of life.actions) {
      if (action.do === 'append') state.offered = Math.max(state.offered, action.request);
      if (action.do === 'append-together') {
        state.offered = Math.max(state.offered, ...action.requests);
      }
    }
    wrong.push(...report.wrong);
    state.moment = report.moment;
    const { end } = report;
    ends.push(end === undefined ? 'killed' : `${end.how} ${end.where}`.trim());
  };
  /** Damage may have been reported where there was none. */
  const falseAlarms = (report: LifeReport): void => {
    for (const text of report.end?.reported ?? []) wrong.push(`false alarm: ${text}`);
    const { end } = report;
    // A disk that fails while the ledger is being opened is no damage; the next start comes.
    const passing = plan.faultyDisk && (end?.cause === 'retryable' || end?.cause === 'full');
    if (end?.how === 'unopened' && !passing) wrong.push(`cannot be opened: ${end.where}`);
    if (report.end?.how === 'stuck') wrong.push(`stuck: ${report.end.where}`);
  };
  const pass = (ms: number): void => {
    state.moment = { ...state.moment, elapsed: state.moment.elapsed + ms };
  };
  const killAfter = (life: Life) =>
    life.death?.when.kind === 'time' ? { killAfterMs: life.death.when.ms } : {};

  /** Another process opens the directory while the first one stands still; gives the time when it is done. */
  const intrude = async (lockDeleted: boolean, moment: Moment): Promise<number> => {
    const { directory } = state;
    if (lockDeleted) deleteLocks(directory);
    const report = await options.subjects.use(false, (other) =>
      other.live(orderOf({ actions: INTRUDER }, { directory, start: moment, unacknowledged: [] })),
    );
    const { end } = report;
    const fenced = end?.how === 'unopened' && end.cause === 'fenced';
    if (lockDeleted ? end?.how !== 'completed' : !fenced) {
      wrong.push(`second instance: ${end?.how} ${end?.where ?? ''}`);
    }
    return report.moment.elapsed;
  };

  const damaged = async (life: Life, seed: number): Promise<void> => {
    const backup = join(copies, 'backup');
    rmSync(backup, { recursive: true, force: true });
    cpSync(state.directory, backup, { recursive: true });
    const { acknowledged, offered, moment } = {
      ...state,
      acknowledged: new Set(state.acknowledged),
    };
    const kind = life.damage?.kind ?? 'flip';
    const what = damageDirectory(state.directory, kind, seed);
    const order = orderOf({ actions: [] }, { inspect: true });
    const report = await options.subjects.use(plan.faultyDisk, (subject) => subject.live(order));
    note(report, { actions: [] });
    const { end } = report;
    const told = end === undefined || end.how !== 'completed' || end.reported.length > 0;
    ends.push(`${what}: ${told ? 'reported' : 'harmless'}`);
    if (!told) return;
    // As an operator would: the snapshot is put back, and what is newer is measured again.
    restored = true;
    state.directory = nextDirectory();
    cpSync(backup, state.directory, { recursive: true });
    state.acknowledged = acknowledged;
    state.offered = Math.max(offered, state.offered);
    state.moment = { ...state.moment, elapsed: Math.max(moment.elapsed, state.moment.elapsed) };
  };

  return {
    ends,
    wrong,
    acknowledged: () => state.acknowledged,
    /** What was measured again after a snapshot may come in another order. */
    inOrder: () => !restored,

    live: async (life: Life): Promise<void> => {
      const order = orderOf(life, {});
      await options.subjects.use(plan.faultyDisk, async (subject) => {
        const baseline =
          life.powerCut === undefined
            ? undefined
            : takeBaseline(state.directory, join(copies, 'baseline'));
        const report = await subject.live(order, {
          ...killAfter(life),
          onWaiting: intrude,
        });
        note(report, life);
        falseAlarms(report);
        follow(report, subject, baseline, life);
      });
      pass(life.downtimeMs);
      if (life.damage !== undefined) await damaged(life, life.damage.seed);
    },

    finish: async (): Promise<LedgerEnd | undefined> => {
      const order = orderOf({ actions: [] }, { last: true, inspect: true });
      const report = await options.subjects.use(false, (subject) => subject.live(order));
      note(report, { actions: [] });
      falseAlarms(report);
      return report.end?.ledger;
    },
  };

  /** Which directory is gone on with. */
  function follow(
    { end }: LifeReport,
    subject: Subject,
    baseline: Baseline | undefined,
    life: Life,
  ): void {
    const seen = end?.directory ?? state.directory;
    const result = nextDirectory();
    if (baseline === undefined || subject.trace === undefined) {
      if (seen === state.directory) return;
      renameSync(seen, result);
      state.directory = result;
      return;
    }
    const traced = end?.traced ?? Number.POSITIVE_INFINITY;
    const seed = life.powerCut?.seed ?? 0;
    cutPower({ baseline, seen, result, trace: subject.trace, traced, seed });
    clearTrace(subject.trace);
    state.directory = result;
  }
}

function deleteLocks(directory: string): void {
  for (const name of readdirSync(directory)) {
    if (name.startsWith('segment-')) rmSync(join(directory, name, 'LOCK'), { force: true });
  }
}
