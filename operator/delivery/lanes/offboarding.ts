import type { Destination, StepOutcome } from '../../destinations/destination.ts';
import type { Ledger, WriteOutcome } from '../../ledger/ledger.ts';
import { errorText } from '../../model/error-text.ts';
import type { Tenant } from '../../model/tenant.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { TimeSlice } from '../../telemetry/time-slice.ts';
import { type BlockReason, retryDelayMs } from '../delivery-result.ts';
import type { DeadLetterIndex } from '../records/dead-letters.ts';
import type { DeliveryRecords, OffboardRequest } from '../records/delivery-records.ts';
import type { ParkedTenants } from './parked-tenants.ts';
import type { PlanChanges } from './plan-changes.ts';
import type { TenantLookup } from './tenant-directory.ts';
import type { TenantProvisioner } from './tenant-provisioner.ts';
import type { UsageToCome } from './usage-to-come.ts';

const CHECK_EVERY_MS = 60_000;

/** The requests to offboard tenants at a destination, in memory and on record. */
export class OffboardRequests {
  readonly #options: Pick<OffboardingOptions, 'ledger' | 'records' | 'clock'>;
  readonly #requests = new Map<string, OffboardRequest>();

  constructor(options: Pick<OffboardingOptions, 'ledger' | 'records' | 'clock'>) {
    this.#options = options;
  }

  get count(): number {
    return this.#requests.size;
  }

  has(tenant: string): boolean {
    return this.#requests.has(tenant);
  }

  list(): Iterable<readonly [tenant: string, request: OffboardRequest]> {
    return this.#requests;
  }

  async load(): Promise<void> {
    for await (const request of this.#options.records.offboards()) {
      this.#requests.set(request.tenant.id, request);
    }
  }

  /** Durably adds a tenant, as of the ledger's head. */
  async add(tenant: Tenant): Promise<WriteOutcome> {
    const { ledger, records, clock } = this.#options;
    const request = { tenant, sequence: ledger.head(), requestedAt: clock.now() };
    const outcome = await ledger.writeRecords([records.putOffboard(request)]);
    if (outcome.kind === 'written') this.#requests.set(tenant.id, request);
    return outcome;
  }

  /** Removes a request from memory. Call after its record was dropped. */
  remove(tenant: string): void {
    this.#requests.delete(tenant);
  }
}

interface OffboardingOptions {
  readonly destination: Destination;
  readonly ledger: Ledger;
  readonly records: DeliveryRecords;
  readonly tenants: TenantLookup;
  readonly provisioner: TenantProvisioner;
  readonly parked: ParkedTenants;
  readonly deadLetters: DeadLetterIndex;
  readonly changes: PlanChanges;
  readonly usageToCome: UsageToCome;
  readonly leaving: OffboardRequests;
  readonly clock: Clock;
  /** Numbers in [0, 1). */
  readonly random: () => number;
  readonly onDone: (tenant: string) => void;
  readonly onRefused: (tenant: string, reason: string) => void;
}

/**
 * Ends tenants at the destination after their last event was delivered
 * (docs/explanation/delivery.md#tenants). It waits, at most MAX_BACKFILL, for parked events, dead
 * letters and usage that is still to be measured. A tenant that has returned by then stays.
 */
export class Offboarding {
  readonly #options: OffboardingOptions;
  readonly #retries = new Map<string, { readonly failures: number; readonly at: number }>();
  #nextCheck = 0;

  constructor(options: OffboardingOptions) {
    this.#options = options;
  }

  /** Durably requests that a tenant is offboarded. None of its events follow the ledger's head. */
  async request(tenant: Tenant): Promise<WriteOutcome> {
    const { leaving, clock } = this.#options;
    const outcome = await leaving.add(tenant);
    if (outcome.kind === 'written') this.#nextCheck = clock.monotonic();
    return outcome;
  }

  /** Serves requests that are due. `cursor` is the destination's cursor. */
  async step(cursor: number, signal: AbortSignal): Promise<BlockReason | undefined> {
    const { tenants, clock, leaving } = this.#options;
    const now = clock.monotonic();
    const slice = new TimeSlice(clock);
    let hasOpenGaps = tenants.openGaps?.();
    for (const [id, request] of leaving.list()) {
      if (slice.isOver) {
        await slice.next();
        hasOpenGaps = tenants.openGaps?.();
      }
      if (tenants.find(id) !== undefined) {
        await this.#drop(id, false);
        continue;
      }
      if ((this.#retries.get(id)?.at ?? now) > now) continue;
      if (!(await this.#isReady(request, cursor, hasOpenGaps))) continue;
      const blocked = await this.#serve(id, signal);
      if (blocked !== undefined) return blocked;
    }
    this.#nextCheck = clock.monotonic() + CHECK_EVERY_MS;
    return undefined;
  }

  /** Milliseconds until the next check; undefined without requests. */
  dueIn(): number | undefined {
    if (this.#options.leaving.count === 0) return undefined;
    return Math.max(0, this.#nextCheck - this.#options.clock.monotonic());
  }

  async #isReady(
    { tenant, sequence, requestedAt }: OffboardRequest,
    cursor: number,
    hasOpenGaps: ((tenant: string) => boolean) | undefined,
  ) {
    const { parked, deadLetters, changes, usageToCome } = this.#options;
    const ending = { tenant: tenant.id, sequence, since: requestedAt };
    const isSetAside = (): boolean =>
      parked.reasonOf(tenant.id) !== undefined ||
      deadLetters.countOf(tenant.id) > 0 ||
      changes.isUnderWay(tenant.id);
    return !(await usageToCome(ending, cursor, isSetAside, hasOpenGaps));
  }

  /** Offboards a tenant. A tenant that was never provisioned here counts as offboarded. */
  async #serve(id: string, signal: AbortSignal): Promise<BlockReason | undefined> {
    const { records, clock, random, onDone, onRefused } = this.#options;
    const known = await records.tenant(id);
    const outcome = known === undefined ? DONE : await this.#offboard(known, signal);
    if (outcome.kind === 'done') {
      await this.#drop(id, true);
      onDone(id);
      return undefined;
    }
    if (outcome.kind === 'blocked') return outcome;
    const failures = (this.#retries.get(id)?.failures ?? 0) + 1;
    const afterMs = outcome.kind === 'retry' ? (outcome.afterMs ?? 0) : 0;
    const wait = Math.max(afterMs, retryDelayMs(failures, random));
    this.#retries.set(id, { failures, at: clock.monotonic() + wait });
    onRefused(id, outcome.reason);
    return undefined;
  }

  async #offboard(tenant: Tenant, signal: AbortSignal): Promise<StepOutcome> {
    try {
      const { customers } = this.#options.destination;
      return (await customers?.offboard(tenant, signal)) ?? DONE;
    } catch (error) {
      return { kind: 'retry', reason: `offboarding failed: ${errorText(error)}` };
    }
  }

  async #drop(id: string, ended: boolean): Promise<void> {
    const { ledger, records, provisioner, changes, leaving } = this.#options;
    if (ended && (await changes.forget(id)).kind !== 'done') return;
    const drops = [records.dropOffboard(id), ...(ended ? [records.dropTenant(id)] : [])];
    const outcome = await ledger.writeRecords(drops);
    if (outcome.kind === 'failed') return;
    leaving.remove(id);
    this.#retries.delete(id);
    if (ended) provisioner.forget(id);
  }
}

const DONE: StepOutcome = { kind: 'done' };
