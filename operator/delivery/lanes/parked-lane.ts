import {
  type BlockReason,
  countResults,
  earliestByTenant,
  withResults,
} from '../delivery-result.ts';
import type { SendRound } from '../feeder/send-round.ts';
import { type DeliveryRecords, firstOf, type KeptEvent } from '../records/delivery-records.ts';
import type { SettlementWriter } from '../records/settlement-writer.ts';
import type { ParkedTenants } from './parked-tenants.ts';
import type { PlanChanges } from './plan-changes.ts';
import { type TenantDirectory, tenantFingerprint } from './tenant-directory.ts';
import type { TenantProvisioner } from './tenant-provisioner.ts';

/** What a step of a lane came to: `moved` when there may be more to do at once. */
export interface LaneReport {
  readonly moved: boolean;
  readonly accepted: number;
  readonly rejected: number;
  /** Only what concerns the whole destination. */
  readonly blocked?: BlockReason;
}

export const IDLE_LANE: LaneReport = { moved: false, accepted: 0, rejected: 0 };

export interface LaneOptions {
  readonly records: DeliveryRecords;
  readonly settlements: SettlementWriter;
  readonly sendRound: SendRound;
  readonly batchEvents: () => number;
}

export interface ParkedLaneOptions extends LaneOptions {
  readonly provisioner: TenantProvisioner;
  readonly directory: TenantDirectory;
  readonly parked: ParkedTenants;
  readonly changes: PlanChanges;
  /** Whether events of the tenant are to be kept that are not on record yet. */
  readonly isParking: (tenant: string) => boolean;
}

/** How often a tenant whose usage waits for the change of its plan is looked at; the change itself wakes it. */
const CHANGE_CHECK_MS = 60_000;

export type ParkedLane = (signal: AbortSignal) => Promise<LaneReport>;

/**
 * Serves parked tenants: provisions one whose time has come, then sends its oldest events, in order.
 * What fails here concerns that tenant only and is tried again after its own backoff.
 */
export function createParkedLane(options: ParkedLaneOptions): ParkedLane {
  const { records, directory, provisioner, parked, changes, settlements, sendRound } = options;

  return async (signal) => {
    const tenant = parked.due();
    if (tenant === undefined) return IDLE_LANE;
    const postpone = (reason: string, afterMs?: number): void => {
      const current = directory.current(tenant);
      const fingerprint = current === undefined ? '' : tenantFingerprint(current);
      parked.postpone(tenant, reason, fingerprint, afterMs);
    };
    const oldest = await firstOf(records.parkedOf(tenant), options.batchEvents());
    const [first] = oldest;
    if (first === undefined) {
      const reason = options.isParking(tenant) ? parked.reasonOf(tenant) : undefined;
      if (reason !== undefined) {
        postpone(reason);
        return IDLE_LANE;
      }
      parked.remove(tenant);
      return { ...IDLE_LANE, moved: true };
    }
    const earliest = earliestByTenant(oldest).get(tenant) ?? first.event;
    const step = await provisioner.retry(earliest, signal);
    if (step.kind === 'hold') return { ...IDLE_LANE, blocked: step };
    if (step.kind !== 'done') {
      postpone(step.reason, step.kind === 'retry' ? step.afterMs : undefined);
      return IDLE_LANE;
    }
    const kept =
      changes.pendingOf(tenant) === undefined
        ? oldest
        : await firstOf(sendable(records.parkedOf(tenant), changes), options.batchEvents());
    if (kept.length === 0) {
      parked.waitForChange(tenant, CHANGE_CHECK_MS);
      return IDLE_LANE;
    }
    const { results, blocked } = await sendRound(kept, signal, true);
    const settled = withResults(kept, results);
    const outcome = await settlements.write(settled, ({ sequence }) =>
      records.dropParked(tenant, sequence),
    );
    if (outcome.kind === 'failed') {
      postpone(outcome.message);
      return IDLE_LANE;
    }
    parked.settledEvents(tenant, settled.length);
    const accepted = countResults(settled, 'delivered');
    const rejected = countResults(settled, 'dead');
    const report = { moved: settled.length > 0, accepted, rejected };
    if (blocked?.kind === 'hold') return { ...report, blocked };
    if (settled.length < kept.length) {
      postpone(blocked?.reason ?? first.reason, blocked?.afterMs);
      return { ...report, moved: false };
    }
    return report;
  };
}

/** Without what waits for a change of plan. */
async function* sendable(
  listing: AsyncIterable<KeptEvent>,
  changes: PlanChanges,
): AsyncGenerator<KeptEvent> {
  for await (const kept of listing) if (!changes.waits(kept)) yield kept;
}
