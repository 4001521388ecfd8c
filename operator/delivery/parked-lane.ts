import { type BookKeeping, judge } from './book-keeping.ts';
import { type DeliveryRecords, firstOf } from './delivery-records.ts';
import { earliestByTenant, type Trouble } from './entry.ts';
import type { createSendRound } from './send-round.ts';
import type { ParkedTenants } from './parked-tenants.ts';
import type { TenantDirectory } from './tenant-directory.ts';
import type { TenantGate } from './tenant-gate.ts';
import { tenantFingerprint } from './tenant-source.ts';

/** What a step of a lane came to: `moved` when there may be more to do at once. */
export interface LaneReport {
  readonly moved: boolean;
  readonly accepted: number;
  readonly rejected: number;
  /** Only what concerns the whole destination. */
  readonly trouble?: Trouble;
}

export const IDLE_LANE: LaneReport = { moved: false, accepted: 0, rejected: 0 };

export interface LaneOptions {
  readonly records: DeliveryRecords;
  readonly gate: TenantGate;
  readonly directory: TenantDirectory;
  readonly parked: ParkedTenants;
  readonly books: BookKeeping;
  readonly sendRound: ReturnType<typeof createSendRound>;
  readonly batchEvents: () => number;
}

/**
 * Serves parked tenants: provisions one whose time has come, then sends its oldest events, in order.
 * What fails here concerns that tenant only and is tried again after its own backoff.
 */
export function createParkedLane(options: LaneOptions) {
  const { records, directory, gate, parked, books, sendRound } = options;

  return async (signal: AbortSignal): Promise<LaneReport> => {
    const tenant = parked.due();
    if (tenant === undefined) return IDLE_LANE;
    const postpone = (reason: string, afterMs?: number): void => {
      const current = directory.current(tenant);
      const fingerprint = current === undefined ? '' : tenantFingerprint(current);
      parked.postpone(tenant, reason, fingerprint, afterMs);
    };
    const entries = await firstOf(records.parkedOf(tenant), options.batchEvents());
    const [first] = entries;
    if (first === undefined) {
      parked.remove(tenant);
      return { ...IDLE_LANE, moved: true };
    }
    const earliest = earliestByTenant(entries).get(tenant) ?? first.event;
    const step = await gate.retry(earliest, signal);
    if (step.kind === 'hold') return { ...IDLE_LANE, trouble: step };
    if (step.kind !== 'done') {
      postpone(step.reason, step.kind === 'retry' ? step.afterMs : undefined);
      return IDLE_LANE;
    }
    const { verdicts, trouble } = await sendRound(entries, signal, true);
    const judged = judge(entries, verdicts);
    const outcome = await books.write(judged, ({ sequence }) =>
      records.dropParked(tenant, sequence),
    );
    if (outcome.kind === 'failed') {
      postpone(outcome.message);
      return IDLE_LANE;
    }
    parked.settledEvents(tenant, judged.length);
    const accepted = judged.filter(({ verdict }) => verdict.kind === 'delivered').length;
    const rejected = judged.filter(({ verdict }) => verdict.kind === 'dead').length;
    const report = { moved: judged.length > 0, accepted, rejected };
    if (trouble?.kind === 'hold') return { ...report, trouble };
    if (judged.length < entries.length) {
      postpone(trouble?.reason ?? first.reason, trouble?.afterMs);
      return { ...report, moved: false };
    }
    return report;
  };
}
