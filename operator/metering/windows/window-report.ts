import type { Assembled } from '../meters/assemble.ts';
import type { Settings } from '../../settings/settings.ts';
import type { EventOutcome } from '../../ledger/ledger.ts';
import type { Diagnostics, GpuBalance } from '../meters/meter-reports.ts';
import { formatInstant } from '../../model/window.ts';
import type { Observation } from '../timelines/observation.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { CollectorMetrics } from './collector-metrics.ts';
import { type ControlPlaneReport, controlPlaneReport } from './control-plane-report.ts';
import type { DueWindow } from './due-windows.ts';
import type { Gap, Gaps } from './gaps.ts';
import { type GpuReport, gpuReport, unaccountedSeconds } from './gpu-report.ts';
import type { Measured } from './measure-window.ts';
import { PrivateNodeWatch } from './private-node-watch.ts';
import { TENANT_API } from './tenant-scopes.ts';
import {
  type UnattributedReport,
  unattributedReport,
  UnattributedWatch,
} from './unattributed-report.ts';

/** The result of closing a window; one for each time if its scopes close at different times. */
export interface WindowReport {
  /** RFC 3339. */
  readonly windowStart: string;
  readonly windowEnd: string;
  readonly closedAt: string;
  /** Measuring and appending, milliseconds of the monotonic clock. */
  readonly durationMs: number;
  /** The closed scopes: `pods`, `gpus`, `volumes`, `load-balancers`, `workloads`, `tenant-api`. */
  readonly scopes: readonly string[];
  /** How many tenant clusters' own APIs were closed. */
  readonly tenantApis?: number;
  readonly events: number;
  /** Events that the ledger already had: with the same quantity, and with another one. */
  readonly duplicates: number;
  readonly conflicts: number;
  readonly tenants: number;
  readonly tenantClusters: number;
  readonly backfilled: boolean;
  /** Gaps that touch the window. */
  readonly gaps: readonly Gap[];
  /** Charges that could not become an event, `what: where: "input"`. */
  readonly refused: readonly string[];
  readonly unattributed: UnattributedReport;
  /** Usage of control plane pods; absent if there are none. */
  readonly controlPlane?: ControlPlaneReport;
  /**
   * Objects of virtual machines that are nodes, which are no usage of their namespace: their number
   * and the first ten; absent if there are none.
   */
  readonly machines?: { readonly total: number; readonly items: readonly string[] };
  /** GPU time by use; absent if the scope `gpus` was not closed. */
  readonly gpus?: GpuReport;
  /**
   * Nodes that several tenant clusters have an equal claim to. They are dedicated to none, and
   * their pods are billed as shared.
   */
  readonly contestedNodes: readonly {
    readonly node: string;
    readonly tenantClusters: readonly string[];
  }[];
  /** Problems of the last day with tenants' reports about private nodes; absent without any. */
  readonly privateNodeProblems?: readonly string[];
  /** Object time that closed windows billed too much and that is not given back yet, seconds. */
  readonly openReversalSeconds: number;
  /** The part of it that found no charge within MAX_BACKFILL. */
  readonly expiredReversalSeconds: number;
}

type Result = Measured & Assembled;
type ReportTimes = Pick<WindowReport, 'closedAt' | 'durationMs' | 'backfilled'>;

/** Reports the result of closing a window: in its report, in metrics and in the log. */
export class WindowReporter {
  readonly #options;
  readonly #privateNodes: PrivateNodeWatch;
  readonly #unattributed: UnattributedWatch;

  constructor(options: {
    readonly observation: Observation;
    readonly gaps: Pick<Gaps, 'list'>;
    readonly metrics: CollectorMetrics;
    readonly settings: () => Settings;
    readonly logger: Logger;
  }) {
    const { metrics, logger } = options;
    this.#options = options;
    this.#privateNodes = new PrivateNodeWatch({
      mostDownPercent: () => options.settings().metering.privateNodeDowntimePercent,
      metrics,
      logger,
    });
    this.#unattributed = new UnattributedWatch(metrics, logger);
  }

  report(
    closed: DueWindow,
    result: Result,
    outcomes: readonly EventOutcome[],
    times: ReportTimes,
  ): WindowReport {
    const report = this.#reportOf(closed, result, outcomes, times);
    this.#report(report);
    if (report.gpus !== undefined) this.#reportGpus(report, result);
    const found = report.unattributed;
    if (hasHostGpus(closed.members)) {
      this.#unattributed.note(report.windowEnd, found, { unattributed: allUnattributed(result) });
    } else {
      this.#options.metrics.unattributedGpuSeconds.inc(found.gpus?.seconds ?? 0);
    }
    return report;
  }

  #reportOf(
    { window, members }: DueWindow,
    result: Result,
    outcomes: readonly EventOutcome[],
    times: ReportTimes,
  ): WindowReport {
    const { observation, gaps } = this.#options;
    const { events, refused, diagnostics, privateNodeDiagnostics, settlement } = result;
    const hosts = members.filter(({ scope }) => scope.privateNodes !== true);
    const tenantApis = privateNodeDiagnostics.size;
    this.#privateNodes.note(window, privateNodeDiagnostics);
    const privateNodeProblems = this.#privateNodes.problems();
    const hasGpus =
      hasHostGpus(members) || members.some(({ scope }) => scope.privateNodes === true);
    return {
      windowStart: formatInstant(window.start),
      windowEnd: formatInstant(window.end),
      ...times,
      scopes: [...hosts.map(({ scope }) => scope.name), ...(tenantApis > 0 ? [TENANT_API] : [])],
      tenantApis: tenantApis > 0 ? tenantApis : undefined,
      events: events.length,
      duplicates: outcomes.filter((kind) => kind === 'duplicate').length,
      conflicts: outcomes.filter((kind) => kind === 'conflict').length,
      tenants: new Set(events.map((event) => event.tenant)).size,
      tenantClusters: observation.tenantClusters.current.length,
      gaps: gaps.list().filter((gap) => gap.from < window.end && gap.to > window.start),
      refused,
      unattributed: unattributedReport({ unattributed: allUnattributed(result) }, hasGpus),
      controlPlane: controlPlaneReport(diagnostics),
      ...(diagnostics.machines.size > 0 && { machines: firstOf(diagnostics.machines) }),
      privateNodeProblems:
        tenantApis > 0 && privateNodeProblems.length > 0 ? privateNodeProblems : undefined,
      gpus: hasGpus ? gpusOf(diagnostics, privateNodeDiagnostics) : undefined,
      contestedNodes: [...diagnostics.contested].map(([node, tenantClusters]) => ({
        node,
        tenantClusters,
      })),
      openReversalSeconds: settlement.reversals.reduce((sum, { ms }) => sum - ms, 0) / 1000,
      expiredReversalSeconds: settlement.expiredMs / 1000,
    };
  }

  #report(report: WindowReport): void {
    const { observation, metrics, logger } = this.#options;
    metrics.closeSeconds.observe(report.durationMs / 1000);
    metrics.events.set(report.events);
    metrics.expiredReversalSeconds.inc(report.expiredReversalSeconds);
    if (report.backfilled) metrics.backfilledWindows.inc();
    const { events, tenantClusters, conflicts, backfilled } = report;
    const window = `[controller] window ${report.windowEnd.slice(11, 19)}`;
    const counts = `${events} events for ${tenantClusters} tenant cluster(s)`;
    logger.info(
      `${window}: ${counts} (${observation.pods.size} pods)${backfilled ? ', backfilled' : ''}`,
    );
    if (conflicts > 0) {
      logger.error(`${window}: ${conflicts} events differ from those stored; the stored ones stay`);
    }
    for (const problem of report.refused) logger.error(`[controller] not billed: ${problem}`);
  }

  #reportGpus(
    { windowEnd }: WindowReport,
    { diagnostics, privateNodeDiagnostics }: Measured,
  ): void {
    const { metrics, logger } = this.#options;
    const balances = [diagnostics, ...privateNodeDiagnostics.values()].flatMap(
      (found) => found.gpuBalances,
    );
    const unaccounted = unaccountedSeconds(balances);
    metrics.unaccountedGpuSeconds.set(unaccounted);
    if (unaccounted === 0) return;
    logger.error(
      `[controller] window ${windowEnd.slice(11, 19)}: ${unaccounted} GPU-seconds unaccounted for`,
    );
  }
}

function hasHostGpus(members: DueWindow['members']): boolean {
  return members.some(({ scope }) => scope.name === 'gpus');
}

function gpusOf(
  diagnostics: Diagnostics,
  ofPrivateNodes: ReadonlyMap<string, Diagnostics>,
): GpuReport {
  const shares = [diagnostics, ...ofPrivateNodes.values()].flatMap(({ gpuShares }) => [
    ...gpuShares.values(),
  ]);
  return gpuReport(diagnostics.gpuBalances, balancesById(ofPrivateNodes), shares);
}

/** Of this cluster and of private nodes. There the tenant cluster's id stands before the name. */
function allUnattributed({
  diagnostics,
  privateNodeDiagnostics,
}: Measured): Diagnostics['unattributed'] {
  const ofPrivateNodes = [...privateNodeDiagnostics].flatMap(([id, { unattributed }]) =>
    [...unattributed].map(([name, found]) => [`${id}: ${name}`, found] as const),
  );
  return new Map([...diagnostics.unattributed, ...ofPrivateNodes]);
}

function balancesById(
  diagnostics: ReadonlyMap<string, Diagnostics>,
): ReadonlyMap<string, readonly GpuBalance[]> {
  return new Map([...diagnostics].map(([id, { gpuBalances }]) => [id, gpuBalances]));
}

const MACHINES_SHOWN = 10;

/** The number of machines, and the first of them. */
function firstOf(all: ReadonlySet<string>): NonNullable<WindowReport['machines']> {
  return { total: all.size, items: [...all].slice(0, MACHINES_SHOWN) };
}
