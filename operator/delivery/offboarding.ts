import type { Destination, StepOutcome } from '../destinations/destination.ts';
import type { Tenant } from '../model/tenant.ts';
import type { Ledger, WriteOutcome } from '../ledger/ledger.ts';
import type { Clock } from '../telemetry/clock.ts';
import { backoffMs } from './backoff.ts';
import type { DeadLetterIndex } from './dead-letters.ts';
import type { DeliveryRecords, OffboardRequest } from './delivery-records.ts';
import type { Trouble } from './entry.ts';
import type { ParkedTenants } from './parked-tenants.ts';
import type { TenantGate } from './tenant-gate.ts';
import type { TenantSource } from './tenant-source.ts';

const CHECK_EVERY_MS = 60_000;

export interface OffboardingOptions {
  readonly destination: Destination;
  readonly ledger: Ledger;
  readonly records: DeliveryRecords;
  readonly tenants: TenantSource;
  readonly gate: TenantGate;
  readonly parked: ParkedTenants;
  readonly deadLetters: DeadLetterIndex;
  readonly clock: Clock;
  readonly random: () => number;
  readonly maxBackfillMs: () => number;
  readonly onDone: (tenant: string) => void;
  readonly onRefused: (tenant: string, reason: string) => void;
}

/**
 * Ends tenants at the destination, but only after their last event was delivered and nothing of theirs
 * is parked, dead or still to be measured; for the latter it waits MAX_BACKFILL at most (design 7).
 * A tenant that is back by then stays.
 */
export interface Offboarding {
  load(): Promise<void>;
  request(tenant: Tenant): Promise<WriteOutcome>;
  /** Serves requests whose time has come; `cursor` is where the destination stands. */
  step(cursor: number, signal: AbortSignal): Promise<Trouble | undefined>;
  /** Milliseconds until the next check; undefined when nothing is asked for. */
  dueIn(): number | undefined;
  readonly count: number;
}

export function createOffboarding(options: OffboardingOptions): Offboarding {
  const { destination, ledger, records, tenants, gate, parked, deadLetters, clock } = options;
  const requests = new Map<string, OffboardRequest>();
  const retries = new Map<string, { readonly failures: number; readonly at: number }>();
  let nextCheck = 0;

  const isReady = ({ tenant, sequence, requestedAt }: OffboardRequest, cursor: number): boolean => {
    if (cursor < sequence) return false;
    if (clock.now() - requestedAt >= options.maxBackfillMs()) return true;
    const open =
      parked.reasonOf(tenant.id) !== undefined ||
      deadLetters.countOf(tenant.id) > 0 ||
      tenants.hasOpenGaps?.(tenant.id) === true;
    return !open;
  };

  const drop = async (id: string, ended: boolean): Promise<void> => {
    const changes = [records.dropOffboard(id), ...(ended ? [records.dropTenant(id)] : [])];
    const outcome = await ledger.writeRecords(changes);
    if (outcome.kind === 'failed') return;
    requests.delete(id);
    retries.delete(id);
    if (ended) gate.forget(id);
  };

  const offboard = async (tenant: Tenant, signal: AbortSignal): Promise<StepOutcome> => {
    try {
      return await destination.offboard(tenant, signal);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      return { kind: 'retry', reason: `offboarding failed: ${reason}` };
    }
  };

  /** A tenant that was never provisioned here has nothing to end. */
  const serve = async (id: string, signal: AbortSignal): Promise<Trouble | undefined> => {
    const known = await records.tenant(id);
    const outcome = known === undefined ? DONE : await offboard(known, signal);
    if (outcome.kind === 'done') {
      await drop(id, true);
      options.onDone(id);
      return undefined;
    }
    if (outcome.kind === 'hold') return outcome;
    const failures = (retries.get(id)?.failures ?? 0) + 1;
    const wait = Math.max(
      outcome.kind === 'retry' ? (outcome.afterMs ?? 0) : 0,
      backoffMs(failures, options.random),
    );
    retries.set(id, { failures, at: clock.monotonic() + wait });
    options.onRefused(id, outcome.reason);
    return undefined;
  };

  return {
    load: async () => {
      for await (const request of records.offboards()) requests.set(request.tenant.id, request);
    },
    request: async (tenant) => {
      const sequence = ledger.head();
      const request = { tenant, sequence, requestedAt: clock.now() };
      const outcome = await ledger.writeRecords([records.putOffboard(request)]);
      if (outcome.kind === 'written') {
        requests.set(tenant.id, request);
        nextCheck = clock.monotonic();
      }
      return outcome;
    },
    step: async (cursor, signal) => {
      const now = clock.monotonic();
      for (const [id, request] of requests) {
        if (tenants.find(id) !== undefined) {
          await drop(id, false);
          continue;
        }
        if (!isReady(request, cursor) || (retries.get(id)?.at ?? now) > now) continue;
        const trouble = await serve(id, signal);
        if (trouble !== undefined) return trouble;
      }
      nextCheck = clock.monotonic() + CHECK_EVERY_MS;
      return undefined;
    },
    dueIn: () => (requests.size === 0 ? undefined : Math.max(0, nextCheck - clock.monotonic())),
    get count() {
      return requests.size;
    },
  };
}

const DONE: StepOutcome = { kind: 'done' };
