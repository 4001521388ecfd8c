import type { DiskLevel } from '../ledger/ledger.ts';
import type { ConditionClaim } from './conditions.ts';
import type { PolicyViews } from './policy-status.ts';

const LONGEST_CAUSE = 1024;

/** What each level of the volume means (design 9); `normal` is no news. */
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

/**
 * What an operator should look at although windows close: each claim is there only while it holds, and
 * its message says what to do (docs/operations.md).
 */
export function policyAttention(views: PolicyViews): readonly ConditionClaim[] {
  const claims: ConditionClaim[] = [];
  const claim = (type: string, reason: string, message: string): void => {
    claims.push({ type, status: 'True', reason, message: message.slice(0, LONGEST_CAUSE) });
  };
  const failure = views.windows.metricsFailure();
  if (failure !== undefined) {
    const message = `CPU and memory usage cannot be read, and each such stretch is a gap: ${failure.reason}; check the metrics server (kubectl top pods -A)`;
    claim('MetricsUnavailable', 'MetricsApiUnreadable', message);
  }
  const [problem] = views.tenants.problems();
  if (problem !== undefined) {
    const message = `GET /api/v1/status lists all under discovery_problems; the first is ${problem}`;
    claim('DiscoveryProblems', 'Ambiguous', message);
  }
  const [unmarked] = views.enforcement.status().problems;
  if (unmarked !== undefined) {
    const message = `GET /api/v1/status lists all under enforcement.problems; the first is ${unmarked}`;
    claim('EnforcementFailing', 'CannotMark', message);
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
    claim('LedgerDamaged', 'ProblemsFound', `GET /api/v1/ledger/verify tells more: ${damage}`);
  }
  return claims;
}
