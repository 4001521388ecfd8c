import { attribute } from '../../discovery/attribution.ts';
import { namespacesOf } from '../../discovery/tenant-cluster.ts';
import {
  type Ledger,
  LedgerReadError,
  type RecordChange,
  type RecordStore,
} from '../../ledger/ledger.ts';
import type { ObjectLabels } from '../timelines/object-labels.ts';
import type { Observation } from '../timelines/observation.ts';
import type { Timeline } from '../timelines/timeline.ts';
import type { CollectorMetrics } from './collector-metrics.ts';
import type { Gaps } from './gaps.ts';
import type { JournalWriter } from './journal-writer.ts';
import type { PrivateNodeNotices } from './private-node-limit.ts';
import type { Quarantine } from './quarantine.ts';
import { forgetTenantApi } from './tenant-journal.ts';
import type { TenantScopeState, TenantScopes } from './tenant-scopes.ts';

export interface EndedTenantsOptions {
  readonly scopes: TenantScopes;
  readonly ledger: RecordStore;
  readonly gaps: Gaps;
  readonly quarantine: Pick<Quarantine, 'release'>;
  readonly privateNodes: Pick<PrivateNodeNotices, 'forget'>;
  readonly journal: Pick<JournalWriter, 'forget'>;
  readonly metrics: Pick<CollectorMetrics, 'gapSeconds'>;
  /** The window size in force, milliseconds. */
  readonly windowMs: number;
}

/** Removes tenant clusters that are gone and whose last window is closed. */
export async function forgetEndedTenants(options: EndedTenantsOptions): Promise<void> {
  const { scopes, ledger, gaps, quarantine, privateNodes, journal } = options;
  for (const scope of scopes.all) {
    const { tenant, progress } = scope;
    if (tenant.ended === undefined || progress.end < tenant.ended.at) continue;
    const forgotten = await changesOf(ledger, tenant.id);
    if (forgotten === undefined) continue;
    noteLost(scope, options);
    const noted = gaps.drain();
    const outcome = await ledger.writeRecords([...forgotten, ...noted]);
    if (outcome.kind !== 'written') {
      gaps.putBack(noted);
      continue;
    }
    journal.forget(scope);
    scopes.drop(tenant.id);
    quarantine.release(scope.scope.name);
    privateNodes.forget(tenant.id);
  }
}

/** Returns undefined while the ledger cannot be read. Windows are closed all the same. */
async function changesOf(
  ledger: Pick<Ledger, 'records'>,
  id: string,
): Promise<readonly RecordChange[] | undefined> {
  try {
    return await forgetTenantApi(ledger, id);
  } catch (error) {
    if (error instanceof LedgerReadError && error.failure.cause === 'retryable') return undefined;
    throw error;
  }
}

/** Notes a gap for usage after the last successful read of the tenant cluster's API. */
function noteLost(
  { tenant, scope, progress }: TenantScopeState,
  { gaps, metrics, windowMs }: EndedTenantsOptions,
): void {
  const { at = 0, knownUntil = 0 } = tenant.ended ?? {};
  const from = Math.max(knownUntil, progress.meteredFrom);
  if (!scope.expected || at - from < windowMs) return;
  const reason = 'the tenant cluster is gone, and its API had failed before';
  const gap = { source: 'collector', scope: tenant.id, from, to: at, reason };
  metrics.gapSeconds.inc({ source: gap.source }, gaps.note(gap) / 1000);
}

/**
 * Finishes the departure of tenant clusters that have no billable object left on the host cluster
 * (docs/explanation/discovery.md#uninstalling).
 */
export function releaseLeft(observation: Observation, now: number): void {
  const { tenantClusters, pods, volumes, loadBalancers, resourceClaims } = observation;
  tenantClusters.release((left) => {
    type LabelledTimeline = Timeline<{ readonly labels: ObjectLabels }>;
    const isTheirs = ({ namespace, spans, gone }: LabelledTimeline): boolean => {
      const [first] = spans;
      const last = spans.at(-1);
      if (gone || first === undefined || last === undefined || last.to < Infinity) return false;
      if (first.from >= left.leftAt) return false;
      const owned = { namespace, labels: last.state.labels };
      const { kind } = attribute(owned, [left.cluster]);
      return kind !== 'unattributed' && kind !== 'machine';
    };
    return [pods, volumes, loadBalancers, resourceClaims].some((timelines) =>
      namespacesOf(left.cluster).some((namespace) =>
        [...timelines.inNamespace(namespace)].some(isTheirs),
      ),
    );
  }, now);
}
