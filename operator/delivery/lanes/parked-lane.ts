import type { Destination } from '../../destinations/destination.ts';
import {
  type BlockReason,
  countResults,
  earliestByTenant,
  withResults,
} from '../delivery-result.ts';
import type { Pending } from '../feeder/pending.ts';
import type { SendPass } from '../feeder/send-pass.ts';
import { type DeliveryRecords, firstOf, type SetAsideEvent } from '../records/delivery-records.ts';
import type { SettlementWriter } from '../records/settlement-writer.ts';
import type { ParkedTenants } from './parked-tenants.ts';
import type { PlanChanges } from './plan-changes.ts';
import { type TenantDirectory, tenantFingerprint } from './tenant-directory.ts';
import type { TenantProvisioner } from './tenant-provisioner.ts';

/** The outcome of a step of a lane. `moved`: there may be more to do at once. */
export interface LaneReport {
  readonly moved: boolean;
  readonly accepted: number;
  readonly rejected: number;
  /** Only a reason that concerns the entire destination. */
  readonly blocked?: BlockReason;
}

export const IDLE_LANE: LaneReport = { moved: false, accepted: 0, rejected: 0 };

export interface LaneOptions {
  readonly destination: Pick<Destination, 'limits'>;
  readonly records: DeliveryRecords;
  readonly settlements: SettlementWriter;
  readonly sendPass: SendPass;
}

/** Interval between checks of a tenant whose plan changes. The change itself wakes it. */
const CHANGE_CHECK_MS = 60_000;

/**
 * Serves parked tenants. Each step provisions one due tenant, then sends its oldest events, in
 * order. A failure concerns that tenant only and is retried after the tenant's own backoff.
 */
export class ParkedLane {
  readonly #options;

  constructor(
    options: LaneOptions & {
      readonly provisioner: TenantProvisioner;
      readonly directory: TenantDirectory;
      readonly parked: ParkedTenants;
      readonly changes: PlanChanges;
      readonly pending: Pick<Pending, 'isParking'>;
    },
  ) {
    this.#options = options;
  }

  async step(signal: AbortSignal): Promise<LaneReport> {
    const { records, provisioner, parked, changes, destination, pending } = this.#options;
    const { batchEvents } = destination.limits;
    const tenant = parked.due();
    if (tenant === undefined) return IDLE_LANE;
    const oldest = await firstOf(records.parkedOf(tenant), batchEvents);
    const [first] = oldest;
    if (first === undefined) {
      const reason = pending.isParking(tenant) ? parked.reasonOf(tenant) : undefined;
      if (reason !== undefined) return this.#postpone(tenant, reason);
      parked.remove(tenant);
      return { ...IDLE_LANE, moved: true };
    }
    const earliest = earliestByTenant(oldest).get(tenant) ?? first.event;
    const step = await provisioner.retry(earliest, signal);
    if (step.kind === 'blocked') return { ...IDLE_LANE, blocked: step };
    if (step.kind !== 'done') {
      return this.#postpone(tenant, step.reason, step.kind === 'retry' ? step.afterMs : undefined);
    }
    const stored =
      changes.pendingOf(tenant) === undefined
        ? oldest
        : await firstOf(sendable(records.parkedOf(tenant), changes), batchEvents);
    if (stored.length === 0) {
      parked.waitForChange(tenant, CHANGE_CHECK_MS);
      return IDLE_LANE;
    }
    return this.#send(tenant, stored, first.reason, signal);
  }

  async #send(
    tenant: string,
    stored: readonly SetAsideEvent[],
    reason: string,
    signal: AbortSignal,
  ): Promise<LaneReport> {
    const { records, settlements, sendPass, parked } = this.#options;
    const { results, blocked } = await sendPass.send(stored, signal, true);
    const settled = withResults(stored, results);
    const outcome = await settlements.write(settled, ({ sequence }) =>
      records.dropParked(tenant, sequence),
    );
    if (outcome.kind === 'failed') return this.#postpone(tenant, outcome.message);
    parked.settledEvents(tenant, settled.length);
    const accepted = countResults(settled, 'delivered');
    const rejected = countResults(settled, 'dead');
    const report = { moved: settled.length > 0, accepted, rejected };
    if (blocked?.kind === 'blocked') return { ...report, blocked };
    if (settled.length === stored.length) return report;
    this.#postpone(tenant, blocked?.reason ?? reason, blocked?.afterMs);
    return { ...report, moved: false };
  }

  #postpone(tenant: string, reason: string, afterMs?: number): LaneReport {
    const { directory, parked } = this.#options;
    const current = directory.current(tenant);
    const fingerprint = current === undefined ? '' : tenantFingerprint(current);
    parked.postpone(tenant, reason, fingerprint, afterMs);
    return IDLE_LANE;
  }
}

/** Yields the events that do not wait for a change of plan. */
async function* sendable(
  listing: AsyncIterable<SetAsideEvent>,
  changes: PlanChanges,
): AsyncGenerator<SetAsideEvent> {
  for await (const stored of listing) if (!changes.waits(stored)) yield stored;
}
