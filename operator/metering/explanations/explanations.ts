import { errorText } from '../../model/error-text.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { Ledger, RecordChange } from '../../ledger/ledger.ts';
import type { Settled } from '../meters/reversals.ts';
import { type ClosedCharges, evidenceHour, EvidenceLog } from '../meters/evidence-log.ts';
import { Explainer, type Explanation } from '../meters/explanation.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { TimeSlice } from '../../telemetry/time-slice.ts';
import { decodeAmounts } from './amounts.ts';
import { decodeEvidence, encodeEvidence, evidenceKey, LEFT_OUT } from './evidence-record.ts';
import { type DayLimits, TenantBudget } from './tenant-budget.ts';

export type Found =
  | { readonly kind: 'found'; readonly explanation: Explanation }
  /** Why there is none. */
  | { readonly kind: 'gone'; readonly reason: string };

const DAY_MS = 24 * 3_600_000;

/** Of the ledger's room, all evidence that RETENTION keeps may take so much. */
const ROOM_SHARE = 1 / 3;
/** Where nobody knows what is free. */
const ENDLESS_BYTES = 2 ** 40;
/** Of what all tenants may take on a day, one may take so much, or this many bytes where they are more, and never more than half. */
const TENANT_SHARE = 1 / 8;
const LEAST_TENANT_BYTES = 16 * 2 ** 20;
const MOST_TENANT_SHARE = 1 / 2;

/**
 * What stands behind the numbers that the ledger stores, as records of the ledger. They bear on no bill:
 * losing them loses explanations, and nothing else (docs/explanation/metering.md#what-stands-behind-a-number).
 */
export class Explanations {
  readonly #ledger: Pick<Ledger, 'records' | 'stats'>;
  /** Explains what the ledger has no evidence of: what an earlier release kept in files. */
  readonly #older: { find(event: UsageEvent): Promise<Found | undefined> };
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #logger: Logger;
  readonly #budget = new TenantBudget();
  #log = new EvidenceLog();
  #closings = 0;
  #lastClosedAt = -Infinity;
  #failing = false;

  constructor(
    ledger: Pick<Ledger, 'records' | 'stats'>,
    older: { find(event: UsageEvent): Promise<Found | undefined> },
    clock: Pick<Clock, 'monotonic'>,
    logger: Logger,
  ) {
    this.#ledger = ledger;
    this.#older = older;
    this.#clock = clock;
    this.#logger = logger;
  }

  /** Returns the records of what the events of a window are made of, for the batch that appends these events. Never fails. */
  async recordsFor(closed: ClosedCharges): Promise<readonly RecordChange[]> {
    try {
      // Records are read in the order of their closings, which a clock that was set back would break.
      if (closed.closedAt < this.#lastClosedAt) this.#log = new EvidenceLog();
      this.#lastClosedAt = closed.closedAt;
      const records = await this.#records(closed);
      this.#failing = false;
      return records;
    } catch (error) {
      // The log knows of what is in no record.
      this.#log = new EvidenceLog();
      this.#warn(error);
      return [];
    }
  }

  async find(event: UsageEvent): Promise<Found> {
    const [end, closedAt] = [Date.parse(event.window_end), Date.parse(event.recorded_at)];
    const { tenant } = event;
    const hour = evidenceHour(tenant, Date.parse(event.window_start));
    const explainer = new Explainer(event);
    const amounts: { spans: number[]; nanos: number[] } = { spans: [], nanos: [] };
    let isLeftOut = false;
    try {
      for await (const [, text] of this.#ledger.records(evidenceKey({ tenant, hour }))) {
        if (text === LEFT_OUT) {
          isLeftOut = true;
          continue;
        }
        const record = decodeEvidence(text);
        if (record.closedAt > closedAt) continue;
        const { start, changes } = record;
        if (changes?.afresh === true) isLeftOut = false;
        if (changes !== undefined) explainer.add({ start, changes });
        const isRequested = record.end === end && record.closedAt === closedAt;
        if (isRequested) decodeAmounts(record.amounts, amounts);
      }
    } catch {
      // Damaged evidence explains nothing, which is no reason to fail.
      return { kind: 'gone', reason: NOT_STORED };
    }
    const explanation = isLeftOut ? undefined : explainer.explanation(amounts);
    if (explanation !== undefined) return { kind: 'found', explanation };
    return (await this.#older.find(event)) ?? { kind: 'gone', reason: NOT_STORED };
  }

  async #records(closed: ClosedCharges): Promise<readonly RecordChange[]> {
    const { window, closedAt } = closed;
    this.#budget.begin(Math.floor(closedAt / DAY_MS));
    const closing = { ...window, closedAt };
    const number = this.#closingNumber(closedAt);
    const limits = this.#limits();
    const records: RecordChange[] = [];
    const turn = new TimeSlice(this.#clock);
    for (const evidence of this.#log.close({ ...closed, sources: this.#within(closed) })) {
      if (turn.isOver) await turn.next();
      const { tenant, changes, amounts } = evidence;
      if (changes === undefined && amounts.spans.length === 0) continue;
      const key = `${evidenceKey(evidence)}${number}`;
      const value = encodeEvidence(closing, evidence);
      const isStored = this.#budget.admit(tenant, key.length + value.length, limits);
      if (!isStored) this.#log.forget(evidence);
      records.push({ key, value: isStored ? value : LEFT_OUT });
    }
    return records;
  }

  /** Of tenants that took too much that day nothing more is stored. */
  #within({ sources }: ClosedCharges): readonly Settled[] {
    return sources.filter(({ charge }) => !this.#budget.isExceeded(charge.identity.tenant));
  }

  /** Sorts after the numbers of all earlier closings, those of earlier processes too: the head never goes back. */
  #closingNumber(closedAt: number): string {
    const { sequence } = this.#ledger.stats();
    this.#closings += 1;
    return `${padded(sequence)}-${padded(closedAt)}-${padded(this.#closings)}`;
  }

  #limits(): DayLimits {
    const { roomBytes = ENDLESS_BYTES, retentionMs = DAY_MS } = this.#ledger.stats();
    const all = (roomBytes * ROOM_SHARE) / Math.max(1, retentionMs / DAY_MS);
    const tenant = Math.max(all * TENANT_SHARE, LEAST_TENANT_BYTES);
    return { all, tenant: Math.min(tenant, all * MOST_TENANT_SHARE) };
  }

  /** One line for each time that it begins to fail. */
  #warn(error: unknown): void {
    const line = `[controller] explanations: cannot be made: ${errorText(error)}; billing goes on without`;
    if (!this.#failing) this.#logger.warn(line);
    this.#failing = true;
  }
}

const NOT_STORED =
  'it was not kept: the objects of its tenant cluster came and went so often that day that there was no room for more, its record is damaged, or an earlier release made the event';

/** Numbers sort as their digits do. */
function padded(number: number): string {
  return String(number).padStart(15, '0');
}
