import type { RecordChange } from '../ledger/ledger.ts';
import type { WindowReport } from './window-report.ts';

/** Key prefix of report records; the rest of the key is the window's end and the time of closing. */
export const REPORT_PREFIX = 'window-report/';

/** How much of the past reports tell of. The newest is kept whatever it takes. */
export interface ReportLimits {
  /** Of so many windows; one whose scopes are closed in turns has many reports. */
  readonly windows: number;
  /** Characters of all of them as records. */
  readonly characters: number;
  /** Rows by node and by tenant, which are many: kept in memory of the newest windows, and never as records. */
  readonly nodeWindows: number;
  readonly nodeRows: number;
}

/** A day of one-minute windows; in memory at most 4 MiB of text, and 8 MiB of rows by node. */
const LIMITS: ReportLimits = {
  windows: 1_440,
  characters: 4 * 2 ** 20,
  nodeWindows: 30,
  nodeRows: 30_000,
};

/** The last reports, in memory and as records. */
export interface WindowReports {
  /** The record changes that keep `report` and drop what is too old. */
  add(report: WindowReport): readonly RecordChange[];
  /** Newest first. Each is read when it is asked for: who wants the newest does not pay for those of a day. */
  list(): IteratorObject<WindowReport, undefined>;
  /** The newest in which this scope was closed, without its rows by node. */
  last(scope: string): WindowReport | undefined;
  /** Takes up records, except those that it has. */
  restore(records: Iterable<readonly [key: string, value: string]>): void;
  /** Forgets what is too old in memory alone: for a reader of records that somebody else keeps. */
  trim(): void;
}

export function createWindowReports(limits: ReportLimits = LIMITS): WindowReports {
  return new ReportStore(limits);
}

interface Kept {
  readonly windowEnd: string;
  /** The record. As an object it takes twice the memory. */
  readonly text: string;
}

interface ReportRecord {
  readonly v: 1;
  readonly report: WindowReport;
}

class ReportStore implements WindowReports {
  readonly #limits: ReportLimits;
  /** Oldest first. */
  readonly #kept = new Map<string, Kept>();
  #characters = 0;
  /** The newest of each scope. */
  readonly #last = new Map<string, WindowReport>();
  /** How many reports there are of each window, by its end. */
  readonly #windows = new Map<string, number>();
  /** Those that still have their rows by node, oldest first, by the same key. */
  readonly #whole = new Map<string, WindowReport>();

  constructor(limits: ReportLimits) {
    this.#limits = limits;
  }

  add(report: WindowReport): readonly RecordChange[] {
    let key = `${REPORT_PREFIX}${report.windowEnd}/${report.closedAt}`;
    // Another scope of the window may have been closed in the same millisecond.
    while (this.#kept.has(key)) key += '+';
    const record: ReportRecord = { v: 1, report: withoutNodes(report) };
    const text = JSON.stringify(record);
    this.#keep(key, text, record.report);
    if (nodeRows(report) > 0) {
      this.#whole.set(key, report);
      this.#thin();
    }
    const dropped = this.#drop();
    return [{ key, value: text }, ...dropped.map((old) => ({ key: old, value: undefined }))];
  }

  *list(): Generator<WindowReport, undefined> {
    for (const [key, { text }] of [...this.#kept].toReversed()) {
      yield this.#whole.get(key) ?? readReport(text);
    }
  }

  last(scope: string): WindowReport | undefined {
    return this.#last.get(scope);
  }

  restore(records: Iterable<readonly [key: string, value: string]>): void {
    for (const [key, text] of records) {
      if (this.#kept.has(key)) continue;
      const { v, report } = JSON.parse(text) as { v: unknown; report: WindowReport };
      if (v === 1) this.#keep(key, text, report);
    }
  }

  trim(): void {
    this.#drop();
  }

  #keep(key: string, text: string, report: WindowReport): void {
    const { windowEnd, scopes } = report;
    this.#kept.set(key, { windowEnd, text });
    this.#characters += text.length;
    this.#windows.set(windowEnd, (this.#windows.get(windowEnd) ?? 0) + 1);
    for (const scope of scopes) this.#last.set(scope, report);
  }

  /** Gives the keys of what is forgotten. */
  #drop(): readonly string[] {
    const dropped: string[] = [];
    for (const [key, { windowEnd, text }] of this.#kept) {
      const { windows, characters: most } = this.#limits;
      const isWithin = this.#windows.size <= windows && this.#characters <= most;
      if (isWithin || this.#kept.size === 1) break;
      this.#kept.delete(key);
      this.#whole.delete(key);
      this.#characters -= text.length;
      const others = (this.#windows.get(windowEnd) ?? 0) - 1;
      if (others > 0) this.#windows.set(windowEnd, others);
      else this.#windows.delete(windowEnd);
      dropped.push(key);
    }
    return dropped;
  }

  /** Forgets the rows by node of all but the newest. */
  #thin(): void {
    const windows = new Set<string>();
    let rows = 0;
    for (const [key, report] of [...this.#whole].toReversed()) {
      windows.add(report.windowEnd);
      rows += nodeRows(report);
      const { nodeWindows, nodeRows: most } = this.#limits;
      const isNewest = rows === nodeRows(report);
      if (!isNewest && (windows.size > nodeWindows || rows > most)) this.#whole.delete(key);
    }
  }
}

function readReport(text: string): WindowReport {
  const { report } = JSON.parse(text) as ReportRecord;
  return report;
}

function nodeRows({ gpus }: WindowReport): number {
  return (gpus?.nodes?.length ?? 0) + (gpus?.tenants?.length ?? 0);
}

function withoutNodes({ gpus, ...report }: WindowReport): WindowReport {
  if (gpus === undefined) return report;
  const { nodes: _nodes, tenants: _tenants, ...summed } = gpus;
  return { ...report, gpus: summed };
}
