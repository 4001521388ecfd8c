import type { Life, Plan } from './plan.ts';
import type { Moment } from './subject/idle-clock.ts';
import type { LedgerEnd } from './subject/messages.ts';
import type { LifeReport } from './subject/subject.ts';
import { WINDOW_MS } from './workload.ts';

/** What has come of a plan so far, over all lives. */
export interface Progress {
  moment(): Moment;
  /** Time goes by while nothing runs. */
  pass(ms: number): void;
  acknowledged(): ReadonlySet<number>;
  /** Requests that have been offered and that nobody acknowledged. */
  unacknowledged(): readonly number[];
  /** How each life ended. */
  readonly ends: string[];
  /** What must not have happened. */
  readonly wrong: string[];
  /** Takes in what came of a life. */
  note(report: LifeReport, actions: Life['actions']): void;
  /** Takes in that a life without damage must not have ended so, if it has. */
  noteFalseAlarms(report: LifeReport): void;
  /** Takes in what was never stored, and what the ledger holds in the end. */
  noteEnd(ledger: LedgerEnd | undefined): void;
  /** Forgets the acknowledgements after this moment when called: a snapshot is put back. */
  snapshot(): () => void;
}

export function createProgress(plan: Plan): Progress {
  const ends: string[] = [];
  const wrong: string[] = [];
  let moment: Moment = { elapsed: 0, stepped: 0 };
  let acknowledged = new Set<number>();
  let offered = -1;

  return {
    ends,
    wrong,
    moment: () => moment,
    pass: (ms) => {
      moment = { ...moment, elapsed: moment.elapsed + ms };
    },
    acknowledged: () => acknowledged,
    unacknowledged: () =>
      [...plan.requests.keys()].filter((number) => number <= offered && !acknowledged.has(number)),
    note: (report, actions) => {
      for (const request of report.acknowledged) acknowledged.add(request);
      for (const action of actions) {
        if (action.do === 'append') offered = Math.max(offered, action.request);
        if (action.do === 'append-together') offered = Math.max(offered, ...action.requests);
      }
      wrong.push(...report.wrong);
      // What a life that died early did not come to is offered in the next one, but not before its time.
      const starts = plan.requests.slice(0, offered + 1).map(({ windowStart }) => windowStart);
      const elapsed = Math.max(report.moment.elapsed, ...starts.map((start) => start + WINDOW_MS));
      moment = { ...report.moment, elapsed };
      const { end } = report;
      ends.push(end === undefined ? 'killed' : `${end.how} ${end.where}`.trim());
    },
    noteFalseAlarms: ({ end }) => {
      for (const text of end?.reported ?? []) wrong.push(`false alarm: ${text}`);
      // A disk that fails while the ledger is being opened is no damage; the next start comes.
      const passing = plan.faultyDisk && (end?.cause === 'retryable' || end?.cause === 'full');
      if (end?.how === 'unopened' && !passing) wrong.push(`cannot be opened: ${end.where}`);
      if (end?.how === 'stuck') wrong.push(`stuck: ${end.where}`);
    },
    noteEnd: (ledger) => {
      for (const reason of ledger?.deadLetters ?? []) wrong.push(`dead letter at ${reason}`);
      // What ended before something was deleted is refused, as the ledger could not tell a repeat.
      if (ledger === undefined || ledger.horizon > 0) return;
      for (const number of plan.requests.keys()) {
        if (!acknowledged.has(number)) wrong.push(`request ${number} was never stored`);
      }
    },
    snapshot: () => {
      const known = new Set(acknowledged);
      return () => {
        acknowledged = known;
      };
    },
  };
}
