import type { RecordChange } from '../ledger/ledger.ts';
import type { Window } from '../model/window.ts';
import { areRuns, countWindows, withoutWindow, type WindowRun, withWindow } from './window-runs.ts';

/** What one metric of one tenant cluster still has to be asked for. */
export interface PendingWork {
  readonly metric: string;
  /** The id of a tenant cluster. */
  readonly tenantCluster: string;
  /** Why it could not be had when it was last asked for. */
  readonly reason: string;
  readonly runs: readonly WindowRun[];
}

/** The windows that could not be answered, by metric and tenant cluster, with the changes that the ledger has not seen. */
export interface Pending {
  add(metric: string, tenantCluster: string, window: Window, reason: string): void;
  /** Takes a window off: it was answered, or given up. */
  remove(metric: string, tenantCluster: string, window: Window): void;
  list(): readonly PendingWork[];
  find(metric: string, tenantCluster: string): PendingWork | undefined;
  /** Of all work together. */
  windows(): number;
  /** Changes since the last call, as records. */
  drain(): readonly RecordChange[];
  restore(records: Iterable<readonly [key: string, value: string]>): void;
}

/** Key prefix of the records: `prometheus/pending/<metric>/<tenant cluster>`. */
export const PENDING_PREFIX = 'prometheus/pending/';

export function createPending(): Pending {
  const works = new Map<string, PendingWork>();
  const changed = new Set<string>();

  const put = (work: PendingWork): void => {
    const key = keyOf(work.metric, work.tenantCluster);
    if (work.runs.length === 0) works.delete(key);
    else works.set(key, work);
    changed.add(key);
  };

  return {
    add: (metric, tenantCluster, window, reason) => {
      const known = works.get(keyOf(metric, tenantCluster));
      put({ metric, tenantCluster, reason, runs: withWindow(known?.runs ?? [], window) });
    },
    remove: (metric, tenantCluster, window) => {
      const known = works.get(keyOf(metric, tenantCluster));
      if (known !== undefined) put({ ...known, runs: withoutWindow(known.runs, window) });
    },
    list: () => [...works.values()],
    find: (metric, tenantCluster) => works.get(keyOf(metric, tenantCluster)),
    windows: () => [...works.values()].reduce((sum, { runs }) => sum + countWindows(runs), 0),
    drain: () => {
      const changes = [...changed].map((key) => {
        const work = works.get(key);
        return { key, value: work === undefined ? undefined : JSON.stringify({ v: 1, ...work }) };
      });
      changed.clear();
      return changes;
    },
    restore: (records) => {
      for (const [key, value] of records) {
        const work = parse(value);
        if (work !== undefined) works.set(key, work);
      }
    },
  };
}

function keyOf(metric: string, tenantCluster: string): string {
  return `${PENDING_PREFIX}${metric}/${tenantCluster}`;
}

function parse(text: string): PendingWork | undefined {
  const stored = JSON.parse(text) as Partial<PendingWork> & { readonly v?: unknown };
  const { v, metric, tenantCluster, reason = '', runs } = stored;
  if (v !== 1 || metric === undefined || tenantCluster === undefined) return undefined;
  return areRuns(runs) ? { metric, tenantCluster, reason, runs } : undefined;
}
