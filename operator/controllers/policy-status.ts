import type { MeteringPolicyStatus } from '../settings/custom-resources.generated.ts';
import type { DiskLevel, LedgerStats } from '../ledger/ledger.ts';
import { quote } from '../model/validate-event.ts';
import { formatInstant } from '../model/window.ts';
import { describeLeftOut } from '../prometheus/prometheus-report.ts';
import {
  type ConditionClaim,
  type ConditionType,
  readyBySpec,
  type SpecStatus,
  stalledClaims,
} from './conditions.ts';
import { budgetFields } from './budget-status.ts';
import type { BillingView, TenantsView, WindowsView } from './views.ts';
import type { EnforcementSettings } from '../settings/settings.ts';
import type { MarkingStatus } from '../billing/enforcement/marks/marking.ts';
import type { HeldUsage } from '../billing/held-usage/ledger-held-usage.ts';
import type { BudgetController } from '../billing/budgets/budget-controller.ts';

/** Most items in a list of the status. HTTP returns all of them. */
const MOST_ITEMS = 100;
const LONGEST_TEXT = 1024;
/** Most objects in a message. */
const FEW = 3;
/** Number of late windows that is a fault. One late window is a pause of the process. */
const LATE_WINDOWS = 3;

/**
 * The condition for each level of the volume (docs/reference/troubleshooting.md#the-volume), except
 * `normal`.
 */
const DISK: Readonly<
  Record<Exclude<DiskLevel, 'normal'>, { readonly reason: string; readonly message: string }>
> = {
  warn: {
    reason: 'Warning',
    message: "The ledger's volume is more than 75 % full; make it larger before 85 %",
  },
  'ingest-refused': {
    reason: 'IngestRefused',
    message: "The ledger's volume is more than 85 % full and ingest is refused; make it larger",
  },
  'collector-paused': {
    reason: 'CollectorPaused',
    message:
      "The ledger's volume is more than 95 % full and no window is closed; make it larger, windows are backfilled then",
  },
};

/** The sources of the status of a MeteringPolicy. */
export interface PolicyViews {
  readonly delivery: Pick<BillingView, 'list'>;
  readonly tenants: TenantsView;
  readonly windows: WindowsView;
  readonly ledger: {
    stats(): Pick<
      LedgerStats,
      'ledgerId' | 'sequence' | 'bytes' | 'segments' | 'chain' | 'disk' | 'problems'
    >;
  };
  readonly enforcement: {
    readonly mode: () => EnforcementSettings['mode'];
    /** The pending marks on objects, and the problems with them. */
    readonly status: () => MarkingStatus;
  };
  readonly held: Pick<HeldUsage, 'list' | 'pushedTenants'>;
  readonly budgets: Pick<BudgetController, 'list'>;
  readonly anchors: {
    /** One line for each place that lacks the anchor of the day. */
    readonly problems: () => readonly string[];
  };
  /** Why FOCUS files cannot be written; undefined when all is well. */
  readonly focusProblem: () => string | undefined;
}

/** Returns the condition `Ready` and those that need attention. */
export function policyClaims(
  specStatus: SpecStatus,
  views: PolicyViews,
  windowMs: number,
  now: number,
): readonly ConditionClaim[] {
  const ready =
    readyBySpec(specStatus) ?? readyByWindows(views.windows.lastWindowEnd(), windowMs, now);
  return [ready, ...attentionClaims(views), ...stalledClaims(specStatus)];
}

/** Returns status fields beside the conditions (docs/how-to/operate.md#the-front-page). */
export function policyFields(views: PolicyViews, windowMs: number): MeteringPolicyStatus {
  const { delivery, tenants, windows, ledger, enforcement, held } = views;
  const marking = enforcement.status();
  const lastWindowEnd = windows.lastWindowEnd();
  const clusters = tenants.clusters().filter((cluster) => !cluster.excluded);
  const failed = windows.failedTenantApis().toSorted(byTenantCluster);
  const gaps = windows.gaps().toSorted((a, b) => b.from - a.from);
  const { ledgerId: id, sequence, bytes, segments, chain } = ledger.stats();
  return {
    ...(lastWindowEnd === undefined ? {} : { lastWindow: formatInstant(lastWindowEnd) }),
    windowSeconds: windowMs / 1000,
    ...(tenants.known()
      ? {
          tenants: new Set([
            ...clusters.map(({ tenant }) => tenant),
            ...held.pushedTenants().map(({ id }) => id),
          ]).size,
          tenantClusters: clusters.length,
        }
      : {}),
    enforcement: {
      mode: enforcement.mode(),
      suspendedTenantClusters: marking.suspendedClusters.length,
      pendingObjects: marking.pending,
    },
    ...budgetFields(views.budgets.list()),
    failedTenantAPIs: {
      total: failed.length,
      items: failed.slice(0, MOST_ITEMS).map(({ tenantCluster, reason, since }) => ({
        tenantCluster,
        reason: cut(reason),
        since: formatInstant(since),
      })),
    },
    withoutKubeconfig: windows.withoutKubeconfig(),
    gaps: {
      total: gaps.length,
      items: gaps.slice(0, MOST_ITEMS).map(({ source, scope, from, to, reason }) => ({
        source,
        scope,
        from: formatInstant(from),
        to: formatInstant(to),
        reason: cut(reason),
      })),
    },
    destinations: delivery
      .list()
      .toSorted((a, b) => compare(a.name, b.name))
      .slice(0, MOST_ITEMS)
      .map(({ name, cursor, lagSeconds }) => ({
        name,
        cursor,
        lagSeconds: Math.round(lagSeconds),
      })),
    ledger: { id, sequence, bytes, segments, chain },
  };
}

function readyByWindows(
  lastWindowEnd: number | undefined,
  windowMs: number,
  now: number,
): ConditionClaim {
  const type = 'Ready';
  if (lastWindowEnd === undefined) {
    const message = 'No window has been closed yet';
    return { type, status: 'Unknown', reason: 'Starting', message };
  }
  if (now - lastWindowEnd > LATE_WINDOWS * windowMs) {
    const message = 'Windows are not closed in time; the log shows why';
    return { type, status: 'False', reason: 'WindowsLate', message };
  }
  return { type, status: 'True', reason: 'Metering', message: 'Windows are closed in time' };
}

/**
 * Returns the conditions that need attention although windows close
 * (docs/reference/troubleshooting.md#conditions). Each message says what to do.
 */
function attentionClaims(views: PolicyViews): readonly ConditionClaim[] {
  const claims: ConditionClaim[] = [];
  const claim = (type: ConditionType, reason: string, message: string, brief = message): void => {
    claims.push({ type, status: 'True', reason, message: cut(message), brief });
  };
  const failure = views.windows.metricsFailure();
  if (failure !== undefined) {
    const message = `CPU and memory usage cannot be read, and each such period is a gap: ${failure.reason}; check the metrics server (kubectl top pods -A)`;
    claim('MetricsUnavailable', 'MetricsApiUnreadable', message, failure.reason);
  }
  const { silent, manyQueries, leftOut } = views.windows.prometheus();
  if (silent !== undefined) {
    const message = `Prometheus answers no query: ${silent}; its windows wait, and are lost after MAX_BACKFILL: check spec.prometheus.url or PROMETHEUS_URL, and the credentials`;
    claim('PrometheusUnreachable', 'NoAnswer', message, silent);
  }
  if (manyQueries !== undefined) {
    const message = `Prometheus receives ${manyQueries} queries in every window that each name one tenant cluster; write recording rules that aggregate by a label, and query their results`;
    claim('PrometheusQueriesMany', 'OnePerTenantCluster', message);
  }
  if (leftOut.length > 0) {
    claim('PrometheusQueriesLeftOut', 'NameMissing', leftOut.map(describeLeftOut).join('; '));
  }
  const [problem] = views.tenants.problems();
  if (problem !== undefined) {
    const message = `GET /api/v1/status lists all under discovery_problems; the first is ${problem}`;
    claim('DiscoveryProblems', 'Ambiguous', message, problem);
  }
  const { gpuSeconds, gpuObjects, items } = views.windows.unattributed();
  if (gpuSeconds > 0) {
    const shown = items.slice(0, Math.min(gpuObjects, FEW)).join(', ');
    const message = `${gpuSeconds} GPU-seconds of the last window are billed to nobody. ${gpuObjects} objects used them: ${shown}${gpuObjects > FEW ? ', …' : ''}; GET /api/v1/windows lists more`;
    claim('GPUTimeUnattributed', 'OwnerUnknown', message, 'GPU time is billed to nobody');
  }
  const [unknown] = views.held.list();
  if (unknown !== undefined) {
    const { tenant } = unknown;
    const message = `Usage was pushed for unknown tenants, such as ${quote(tenant)}, and is held; GET /api/v1/held-tenants lists them; release, rename or discard the usage (POST /api/v1/held-tenants/NAME/release)`;
    claim(
      'UsageHeld',
      'UnknownTenants',
      message,
      `usage of unknown tenants such as ${quote(tenant)}`,
    );
  }
  const [unmarked] = views.enforcement.status().problems;
  if (unmarked !== undefined) {
    const message = `GET /api/v1/status lists all under enforcement.problems; the first is ${unmarked}`;
    claim('EnforcementFailing', 'CannotMark', message, unmarked);
  }
  const [notStored] = views.anchors.problems();
  if (notStored !== undefined) claim('AnchorsFailing', 'NotStored', notStored);
  const unwritten = views.focusProblem();
  if (unwritten !== undefined) {
    const message = `FOCUS files cannot be written, and are retried every five minutes: ${unwritten}; check spec.focus.export`;
    claim('FocusExportFailing', 'CannotWrite', message, unwritten);
  }
  const { disk, problems } = views.ledger.stats();
  if (disk.level !== 'normal') {
    const { reason, message } = DISK[disk.level];
    claim('DiskFilling', reason, message);
  }
  if (disk.retentionShortened) {
    const message = 'Delivered events are deleted before RETENTION is over, to make room';
    claim('RetentionShortened', 'DiskFilling', message);
  }
  const [damage] = problems;
  if (damage !== undefined) {
    const message = `GET /api/v1/ledger/verify shows more: ${damage}`;
    claim('LedgerDamaged', 'ProblemsFound', message, damage);
  }
  return claims;
}

function cut(text: string): string {
  return text.slice(0, LONGEST_TEXT);
}

function byTenantCluster(a: { tenantCluster: string }, b: { tenantCluster: string }): number {
  return compare(a.tenantCluster, b.tenantCluster);
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
