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

/** A day of one-minute windows; in memory some 10 MiB, and 8 MiB of rows by node. */
const LIMITS: ReportLimits = {
  windows: 1_440,
  characters: 4 * 2 ** 20,
  nodeWindows: 30,
  nodeRows: 30_000,
};

/** The last reports, oldest first, in memory and as records. */
export interface WindowReports {
  /** The record changes that keep `report` and drop what is too old. */
  add(report: WindowReport): readonly RecordChange[];
  list(): readonly WindowReport[];
  restore(records: Iterable<readonly [key: string, value: string]>): void;
}

export function createWindowReports(limits: ReportLimits = LIMITS): WindowReports {
  return new ReportStore(limits);
}

interface Kept {
  report: WindowReport;
  readonly characters: number;
}

class ReportStore implements WindowReports {
  readonly #limits: ReportLimits;
  /** Oldest first. */
  readonly #kept = new Map<string, Kept>();
  #characters = 0;
  /** How many reports there are of each window, by its end. */
  readonly #windows = new Map<string, number>();
  /** Those that still have their rows by node, oldest first. */
  #withNodes: readonly string[] = [];

  constructor(limits: ReportLimits) {
    this.#limits = limits;
  }

  add(report: WindowReport): readonly RecordChange[] {
    let key = `${REPORT_PREFIX}${report.windowEnd}/${report.closedAt}`;
    // Another scope of the window may have been closed in the same millisecond.
    while (this.#kept.has(key)) key += '+';
    const value = JSON.stringify({ v: 1, report: withoutNodes(report) });
    this.#keep(key, report, value.length);
    if (nodeRows(report) > 0) this.#withNodes = [...this.#withNodes, key];
    const dropped = this.#drop();
    this.#thin();
    return [{ key, value }, ...dropped.map((old) => ({ key: old, value: undefined }))];
  }

  list(): readonly WindowReport[] {
    return [...this.#kept.values()].map(({ report }) => report);
  }

  restore(records: Iterable<readonly [key: string, value: string]>): void {
    for (const [key, value] of records) {
      const { v, report } = JSON.parse(value) as { v: unknown; report: WindowReport };
      if (v === 1) this.#keep(key, report, value.length);
    }
  }

  #keep(key: string, report: WindowReport, characters: number): void {
    this.#kept.set(key, { report, characters });
    this.#characters += characters;
    this.#windows.set(report.windowEnd, (this.#windows.get(report.windowEnd) ?? 0) + 1);
  }

  /** Gives the keys of what is forgotten. */
  #drop(): readonly string[] {
    const dropped: string[] = [];
    for (const [key, { report, characters }] of this.#kept) {
      const { windows, characters: most } = this.#limits;
      const isWithin = this.#windows.size <= windows && this.#characters <= most;
      if (isWithin || this.#kept.size === 1) break;
      this.#kept.delete(key);
      this.#characters -= characters;
      const others = (this.#windows.get(report.windowEnd) ?? 0) - 1;
      if (others > 0) this.#windows.set(report.windowEnd, others);
      else this.#windows.delete(report.windowEnd);
      dropped.push(key);
    }
    return dropped;
  }

  /** Forgets the rows by node of all but the newest. */
  #thin(): void {
    const windows = new Set<string>();
    const still: string[] = [];
    let rows = 0;
    for (const key of this.#withNodes.toReversed()) {
      const kept = this.#kept.get(key);
      if (kept === undefined) continue;
      windows.add(kept.report.windowEnd);
      rows += nodeRows(kept.report);
      const isWithin = windows.size <= this.#limits.nodeWindows && rows <= this.#limits.nodeRows;
      if (isWithin || still.length === 0) still.push(key);
      else kept.report = withoutNodes(kept.report);
    }
    this.#withNodes = still.toReversed();
  }
}

function nodeRows({ gpus }: WindowReport): number {
  return (gpus?.nodes?.length ?? 0) + (gpus?.tenants?.length ?? 0);
}

function withoutNodes({ gpus, ...report }: WindowReport): WindowReport {
  if (gpus === undefined) return report;
  const { nodes: _nodes, tenants: _tenants, ...summed } = gpus;
  return { ...report, gpus: summed };
}
