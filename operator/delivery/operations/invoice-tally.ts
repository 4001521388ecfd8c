import type { Ledger, LedgerFailure, RecordChange } from '../../ledger/ledger.ts';
import { isLateNote } from '../../model/correction.ts';
import { nanosFromDecimal } from '../../model/decimal.ts';
import type { UsageEvent } from '../../model/event.ts';
import { least } from '../../model/extremes.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { sequencesOf } from '../delivery-result.ts';
import type { PlanChanges } from '../lanes/plan-changes.ts';
import type { DeadLetterIndex } from '../records/dead-letters.ts';
import type { DeliveryRecords } from '../records/delivery-records.ts';
import { isUnsent } from '../records/sequence-sets.ts';
import {
  addDelivered,
  type ClosedMetric,
  emptyBalances,
  type TenantBalances,
} from './invoice-balance.ts';
import {
  createInvoiceRecords,
  type InvoiceRecords,
  type TallyState,
  type WaitingEvent,
} from './invoice-records.ts';

const PAGE_EVENTS = 5_000;
const DAY_MS = 86_400_000;
/** Longest delay of usage. */
const LATEST_MS = 35 * DAY_MS;

export interface InvoiceTallyOptions {
  readonly name: string;
  readonly type: string;
  readonly ledger: Ledger;
  readonly records: DeliveryRecords;
  readonly deadLetters: Pick<DeadLetterIndex, 'has'>;
  readonly wants: (event: Pick<UsageEvent, 'metric' | 'unit'>) => boolean;
  readonly cursor: () => number;
  /** Usage that a change of plan moved is on the invoice of the moment as of which it was sent. */
  readonly changes: Pick<PlanChanges, 'sentAt' | 'sentAtOf'>;
  readonly clock: Clock;
}

/** For a tenant and metric: the moment that divides its usage, and when the invoice was final. */
export interface Cut {
  readonly until: number;
  readonly finalAt: number;
}

/**
 * Adds up delivered usage by tenant and metric as the cursor moves, so that it is known long after
 * the events are deleted. An event that the cursor passed unsent counts after it is sent.
 */
export class InvoiceTally {
  readonly tenants = new Map<string, TenantBalances>();
  readonly #options: InvoiceTallyOptions;
  readonly #records: InvoiceRecords;
  readonly #waiting = new Map<number, WaitingEvent>();
  readonly #changed = new Set<string>();
  #state: TallyState | undefined;
  #loading: Promise<void> | undefined;
  /** The cursor at the last poll. Everything up to there is on record at the next poll. */
  #noted: { readonly cursor: number; readonly at: number } | undefined;
  #waitingChanged = false;

  constructor(options: InvoiceTallyOptions) {
    this.#options = options;
    this.#records = createInvoiceRecords(options.ledger, options.name);
  }

  /**
   * Adds usage that was delivered before the last poll. Resolves to the time of that poll. The
   * first poll only notes the time, and resolves to undefined.
   */
  async advance(): Promise<
    { readonly kind: 'at'; readonly at: number | undefined } | LedgerFailure
  > {
    const { clock, cursor } = this.#options;
    await this.load();
    const noted = this.#noted;
    this.#noted = { cursor: cursor(), at: clock.now() };
    if (noted === undefined) return { kind: 'at', at: undefined };
    const failed = await this.#readTo(noted.cursor);
    if (failed !== undefined) return failed;
    await this.#settleWaiting();
    return { kind: 'at', at: noted.at };
  }

  /** Marks a tenant's balances as changed. */
  touch(tenant: string): void {
    this.#changed.add(tenant);
  }

  /** Writes the changed balances and the position of the sums. */
  async save(): Promise<LedgerFailure | undefined> {
    if (this.#state === undefined) return undefined;
    const changes: RecordChange[] = [this.#records.putState(this.#state)];
    if (this.#waitingChanged) changes.push(this.#records.putWaiting(this.#waiting.values()));
    for (const id of this.#changed) {
      const tenant = this.tenants.get(id);
      if (tenant !== undefined) changes.push(this.#records.putTenant(id, tenant));
    }
    const outcome = await this.#options.ledger.writeRecords(changes);
    if (outcome.kind === 'failed') return outcome;
    this.#changed.clear();
    this.#waitingChanged = false;
    return undefined;
  }

  /**
   * Returns the usage on either side of the given cuts, by tenant and metric. Leaves out a tenant
   * if events after one of its cuts are deleted already.
   */
  async divide(
    cuts: ReadonlyMap<string, ReadonlyMap<string, Cut>>,
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, ReadonlyMap<string, ClosedMetric>>> {
    const { ledger, records, wants, changes, clock } = this.#options;
    const { horizon } = ledger.stats();
    const sums = new Map<string, Map<string, { until: number; staying: bigint; late: bigint }>>();
    for (const [tenant, byMetric] of cuts) {
      const all = [...byMetric].map(
        ([metric, { until }]) => [metric, { until, staying: 0n, late: 0n }] as const,
      );
      if (all.every(([, { until }]) => until >= horizon)) sums.set(tenant, new Map(all));
    }
    const from = least(
      [...sums.values()].flatMap((all) => [...all.values()].map((one) => one.until)),
    );
    if (!Number.isFinite(from)) return sums;
    const unsent = await records.unsent();
    // Usage that was late for its invoice begins before the cut.
    for await (const { sequence, event } of ledger.scan(
      Math.max(horizon, from - LATEST_MS),
      clock.now() + DAY_MS,
      signal,
    )) {
      if (sequence > (this.#state?.position ?? 0)) continue;
      const sum = sums.get(event.tenant)?.get(event.metric);
      const cut = cuts.get(event.tenant)?.get(event.metric);
      if (sum === undefined || cut === undefined || !wants(event)) continue;
      if (this.#waiting.has(sequence) || isUnsent(unsent, sequence)) continue;
      const nanos = nanosFromDecimal(event.quantity);
      if (changes.sentAt({ sequence, event }) >= cut.until) sum.staying += nanos;
      else if (Date.parse(event.recorded_at) > cut.finalAt) sum.late += nanos;
    }
    return sums;
  }

  /** Reads the sums of earlier processes, once. */
  load(): Promise<void> {
    this.#loading ??= this.#load().catch((error: unknown) => {
      this.#loading = undefined;
      throw error;
    });
    return this.#loading;
  }

  async #load(): Promise<void> {
    const { ledger, records, type } = this.#options;
    const stored = await this.#records.state();
    if (stored === undefined || stored.type !== type) {
      const withheld = await records.unsent();
      const begunComplete = ledger.lowWater() === 0 && withheld.length === 0;
      if (!begunComplete) {
        for await (const id of this.#records.served()) this.tenants.set(id, emptyBalances(false));
      }
      this.#state = {
        type,
        position: ledger.lowWater(),
        begunAt: ledger.head(),
        begunComplete,
      };
      return;
    }
    for await (const [id, tenant] of this.#records.tenants()) this.tenants.set(id, tenant);
    for (const event of await this.#records.waiting()) this.#waiting.set(event.sequence, event);
    this.#state = stored;
    if (stored.position >= ledger.lowWater()) return;
    // Events were deleted before they were added up: every tenant begins again with the next
    // invoice.
    this.#state = { ...stored, position: ledger.lowWater() };
    for (const [id, tenant] of this.tenants) {
      tenant.isComplete = false;
      this.touch(id);
    }
  }

  async #readTo(cursor: number): Promise<LedgerFailure | undefined> {
    const { ledger, records, deadLetters, wants, changes, clock } = this.#options;
    if (this.#state === undefined || this.#state.position >= cursor) return undefined;
    const setAside = await this.#setAside();
    const unsent = await records.unsent();
    while (this.#state.position < cursor) {
      const page = await ledger.read(this.#state.position, PAGE_EVENTS);
      if (page.kind === 'failed') return page;
      for (const { sequence, event } of page.events) {
        if (sequence > cursor || isLateNote(event) || !wants(event) || isUnsent(unsent, sequence))
          continue;
        const { tenant, metric } = event;
        const at = Date.parse(event.window_start);
        const nanos = nanosFromDecimal(event.quantity);
        if (deadLetters.has(sequence) || setAside.has(sequence)) {
          this.#waiting.set(sequence, { sequence, tenant, metric, at, nanos });
          this.#waitingChanged = true;
          continue;
        }
        const sentAt = changes.sentAt({ sequence, event });
        this.#add(sequence, { tenant, metric, at: sentAt, nanos }, clock.now());
      }
      const position = Math.min(cursor, page.events.length === 0 ? cursor : page.lastSequence);
      this.#state = { ...this.#state, position };
    }
    return undefined;
  }

  /** Adds waiting events that were sent by now, and forgets discarded ones. */
  async #settleWaiting(): Promise<void> {
    if (this.#waiting.size === 0) return;
    const { records, deadLetters, changes, clock } = this.#options;
    const setAside = await this.#setAside();
    const unsent = await records.unsent();
    for (const event of this.#waiting.values()) {
      const { sequence } = event;
      if (deadLetters.has(sequence) || setAside.has(sequence)) continue;
      if ((await records.deadLetter(sequence)) !== undefined) continue;
      this.#waiting.delete(sequence);
      this.#waitingChanged = true;
      const at = changes.sentAtOf(event.tenant, { sequence, start: event.at });
      if (!isUnsent(unsent, sequence)) this.#add(sequence, { ...event, at }, clock.now());
    }
  }

  /** Returns parked events and replayed dead letters. */
  #setAside(): Promise<ReadonlySet<number>> {
    const { records } = this.#options;
    return sequencesOf(records.parked(), records.replay());
  }

  #add(sequence: number, event: Omit<WaitingEvent, 'sequence'>, now: number): void {
    const { begunAt = 0, begunComplete = false } = this.#state ?? {};
    const known = this.tenants.get(event.tenant);
    const tenant = known ?? emptyBalances(begunComplete || sequence > begunAt);
    this.tenants.set(event.tenant, tenant);
    addDelivered(tenant, event, now);
    this.touch(event.tenant);
  }
}
