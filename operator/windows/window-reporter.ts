import type { EventOutcome } from '../ledger/ledger.ts';
import type { Findings, GpuBalance } from '../metering/findings.ts';
import type { Observation } from '../observation/observation.ts';
import type { Logger } from '../telemetry/logger.ts';
import { formatInstant } from '../model/window.ts';
import type { CollectorMetrics } from './collector-metrics.ts';
import type { DueWindow } from './due-windows.ts';
import type { Gaps } from './gaps.ts';
import { gpuReport, unaccountedSeconds } from './gpu-report.ts';
import type { Measured } from './measure-window.ts';
import { TENANT_API } from './tenant-scopes.ts';
import type { WindowReport } from './window-report.ts';

/** Says what closing a window came to: in its report, in metrics and in the log. */
export interface WindowReporter {
  report(
    closed: DueWindow,
    measured: Measured,
    outcomes: readonly EventOutcome[],
    times: Pick<WindowReport, 'closedAt' | 'durationMs'>,
  ): WindowReport;
}

export interface WindowReporterOptions {
  readonly observation: Observation;
  readonly gaps: Pick<Gaps, 'list'>;
  readonly metrics: CollectorMetrics;
  readonly logger: Logger;
}

const UNATTRIBUTED_SHOWN = 10;

export function createWindowReporter(options: WindowReporterOptions): WindowReporter {
  const { observation, gaps, metrics, logger } = options;

  const reportOf = (
    { window, members }: DueWindow,
    measured: Measured,
    outcomes: readonly EventOutcome[],
    times: Pick<WindowReport, 'closedAt' | 'durationMs'>,
  ): WindowReport => {
    const { events, findings, ownFindings, settlement } = measured;
    const hosts = members.filter(({ scope }) => scope.ownNodes !== true);
    const own = ownFindings.size;
    return {
      windowStart: formatInstant(window.start),
      windowEnd: formatInstant(window.end),
      ...times,
      scopes: [...hosts.map(({ scope }) => scope.name), ...(own > 0 ? [TENANT_API] : [])],
      ...(own > 0 ? { tenantApis: own } : {}),
      events: events.length,
      duplicates: outcomes.filter((kind) => kind === 'duplicate').length,
      conflicts: outcomes.filter((kind) => kind === 'conflict').length,
      tenants: new Set(events.map((event) => event.tenant)).size,
      tenantClusters: observation.tenantClusters.current.length,
      backfilled: measured.backfilled,
      gaps: gaps.list().filter((gap) => gap.from < window.end && gap.to > window.start),
      refused: measured.refused,
      unattributed: {
        total: findings.unattributed.size,
        items: [...findings.unattributed].slice(0, UNATTRIBUTED_SHOWN),
      },
      ...(members.some(({ scope }) => scope.name === 'gpus' || scope.ownNodes === true)
        ? { gpus: gpuReport(findings.gpuBalances, ownBalances(ownFindings)) }
        : {}),
      contestedNodes: [...findings.contested].map(([node, tenantClusters]) => ({
        node,
        tenantClusters,
      })),
      openCreditSeconds: settlement.credits.reduce((sum, { ms }) => sum - ms, 0) / 1000,
      unsettledCreditSeconds: settlement.unsettledMs / 1000,
    };
  };

  const tell = (report: WindowReport): void => {
    metrics.closeSeconds.observe(report.durationMs / 1000);
    metrics.events.set(report.events);
    metrics.unsettledCreditSeconds.inc(report.unsettledCreditSeconds);
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
  };

  const tellGpus = ({ windowEnd }: WindowReport, { findings, ownFindings }: Measured): void => {
    const balances = [findings, ...ownFindings.values()].flatMap((found) => found.gpuBalances);
    const unaccounted = unaccountedSeconds(balances);
    metrics.unaccountedGpuSeconds.set(unaccounted);
    if (unaccounted === 0) return;
    logger.error(
      `[controller] window ${windowEnd.slice(11, 19)}: ${unaccounted} GPU-seconds unaccounted for`,
    );
  };

  return {
    report: (closed, measured, outcomes, times) => {
      const report = reportOf(closed, measured, outcomes, times);
      tell(report);
      if (report.gpus !== undefined) tellGpus(report, measured);
      return report;
    },
  };
}

function ownBalances(
  findings: ReadonlyMap<string, Findings>,
): ReadonlyMap<string, readonly GpuBalance[]> {
  return new Map([...findings].map(([id, { gpuBalances }]) => [id, gpuBalances]));
}
