import type { RecordChange } from '../ledger/ledger.ts';
import type { Gap } from './gaps.ts';
import type { GpuReport } from './gpu-report.ts';

/** What closing one window came to. A window whose scopes were closed at different times has one report for each time. */
export interface WindowReport {
  /** RFC 3339. */
  readonly windowStart: string;
  readonly windowEnd: string;
  readonly closedAt: string;
  /** Measuring and appending, milliseconds of the monotonic clock. */
  readonly durationMs: number;
  /** The scopes that were closed: `pods`, `gpus`, `volumes`, `load-balancers`, `workloads`, `tenant-api`. */
  readonly scopes: readonly string[];
  /** Of how many tenant clusters the own APIs were closed. */
  readonly tenantApis?: number;
  readonly events: number;
  /** Of those, ones that the ledger had with the same and with another quantity. */
  readonly duplicates: number;
  readonly conflicts: number;
  readonly tenants: number;
  readonly tenantClusters: number;
  readonly backfilled: boolean;
  /** Gaps that touch the window. */
  readonly gaps: readonly Gap[];
  /** Charges that could not become an event, `what: where: "input"`. */
  readonly refused: readonly string[];
  /** Objects that cannot be told whose they are: how many, and the first ten. */
  readonly unattributed: { readonly total: number; readonly items: readonly string[] };
  /** Where GPU time went; absent where the scope `gpus` was not closed. */
  readonly gpus?: GpuReport;
  /** Nodes that several tenant clusters have an equal claim to: dedicated to none, their pods billed as shared. */
  readonly contestedNodes: readonly ContestedNode[];
  /** Object time that was billed too much in closed windows and waits to be given back, seconds. */
  readonly openCreditSeconds: number;
  /** Of it, what found no charge within MAX_BACKFILL. */
  readonly unsettledCreditSeconds: number;
}

export interface ContestedNode {
  readonly node: string;
  readonly tenantClusters: readonly string[];
}

/** Key prefix of report records; the rest of the key is the window's end and the time of closing. */
export const REPORT_PREFIX = 'window-report/';

/** A day of one-minute windows. */
const KEPT = 1440;

/** Rows by node are many; they are kept in memory of this many windows, and never as records. */
const NODES_KEPT = 30;

/** The last reports, oldest first, in memory and as records. */
export interface WindowReports {
  /** The record changes that keep `report` and drop what is too old. */
  add(report: WindowReport): readonly RecordChange[];
  list(): readonly WindowReport[];
  restore(records: Iterable<readonly [key: string, value: string]>): void;
}

export function createWindowReports(kept = KEPT): WindowReports {
  const reports = new Map<string, WindowReport>();
  return {
    add: (report) => {
      let key = `${REPORT_PREFIX}${report.windowEnd}/${report.closedAt}`;
      // Another scope of the window may have been closed in the same millisecond.
      while (reports.has(key)) key += '+';
      reports.set(key, report);
      const thinned = [...reports].at(-NODES_KEPT - 1);
      if (thinned !== undefined) reports.set(thinned[0], withoutNodes(thinned[1]));
      const dropped = [...reports.keys()].slice(0, Math.max(0, reports.size - kept));
      for (const old of dropped) reports.delete(old);
      return [
        { key, value: JSON.stringify({ v: 1, report: withoutNodes(report) }) },
        ...dropped.map((old) => ({ key: old, value: undefined })),
      ];
    },
    list: () => [...reports.values()],
    restore: (records) => {
      for (const [key, value] of records) {
        const { v, report } = JSON.parse(value) as { v: unknown; report: WindowReport };
        if (v === 1) reports.set(key, report);
      }
    },
  };
}

function withoutNodes({ gpus, ...report }: WindowReport): WindowReport {
  if (gpus === undefined) return report;
  const { nodes: _, ...summed } = gpus;
  return { ...report, gpus: summed };
}
