import { formatInstant } from '../model/window.ts';
import type { ConditionClaim } from './conditions.ts';
import type { MeteringPolicyStatus } from '../config/custom-resources.generated.ts';
import { policyAttention } from './policy-attention.ts';
import { readyBySpec, stalledClaims, type Verdict } from './verdict.ts';
import type {
  DeliveryView,
  EnforcementView,
  LedgerView,
  TenantsView,
  WindowsView,
} from './views.ts';

/** The rest is over HTTP (design 4). */
const MOST_ITEMS = 100;
const LONGEST_REASON = 1024;
/** One late window is a pause of the process; three are a fault. */
const LATE_WINDOWS = 3;

export interface PolicyViews {
  readonly delivery: DeliveryView;
  readonly tenants: TenantsView;
  readonly windows: WindowsView;
  readonly ledger: LedgerView;
  readonly enforcement: EnforcementView;
}

/** `Ready`, and what deserves attention while it holds. */
export function policyClaims(
  verdict: Verdict,
  views: PolicyViews,
  windowMs: number,
  now: number,
): readonly ConditionClaim[] {
  const ready =
    readyBySpec(verdict) ?? readyByWindows(views.windows.lastWindowEnd(), windowMs, now);
  return [ready, ...policyAttention(views), ...stalledClaims(verdict)];
}

/** The operator's front page, beside conditions and generation (design 4). */
export function policyNumbers(views: PolicyViews, windowMs: number): MeteringPolicyStatus {
  const { delivery, tenants, windows, ledger, enforcement } = views;
  const marking = enforcement.status();
  const lastWindowEnd = windows.lastWindowEnd();
  const clusters = tenants.clusters().filter((cluster) => !cluster.excluded);
  const failed = windows.failedTenantApis().toSorted(byTenantCluster);
  const gaps = windows.gaps().toSorted((a, b) => b.from - a.from);
  const { sequence, bytes, segments, chain } = ledger.stats();
  return {
    ...(lastWindowEnd === undefined ? {} : { lastWindow: formatInstant(lastWindowEnd) }),
    windowSeconds: windowMs / 1000,
    ...(tenants.known()
      ? {
          tenants: new Set(clusters.map(({ tenant }) => tenant)).size,
          tenantClusters: clusters.length,
        }
      : {}),
    enforcement: {
      mode: enforcement.mode(),
      suspendedTenantClusters: marking.suspendedClusters.length,
      pendingObjects: marking.pending,
    },
    failedTenantAPIs: {
      total: failed.length,
      items: failed.slice(0, MOST_ITEMS).map(({ tenantCluster, reason, since }) => ({
        tenantCluster,
        reason: cut(reason),
        since: formatInstant(since),
      })),
    },
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
    ledger: { sequence, bytes, segments, chain },
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
    const message = 'Windows are not being closed in time; the log says why';
    return { type, status: 'False', reason: 'WindowsLate', message };
  }
  return { type, status: 'True', reason: 'Metering', message: 'Windows are closed in time' };
}

function cut(text: string): string {
  return text.slice(0, LONGEST_REASON);
}

function byTenantCluster(a: { tenantCluster: string }, b: { tenantCluster: string }): number {
  return compare(a.tenantCluster, b.tenantCluster);
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
