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

export type FoundExplanation =
  | { readonly kind: 'found'; readonly explanation: Explanation }
  /** `reason` says why there is no explanation. */
  | { readonly kind: 'gone'; readonly reason: string };

const DAY_MS = 24 * 3_600_000;

/** Share of the ledger's space for all evidence within RETENTION. */
const ROOM_SHARE = 1 / 3;
/** Used while the free space is unknown. */
const ENDLESS_BYTES = 2 ** 40;
/** A tenant's daily limit: this share of all tenants' limit, at least these bytes, at most half. */
const TENANT_SHARE = 1 / 8;
const LEAST_TENANT_BYTES = 16 * 2 ** 20;
const MOST_TENANT_SHARE = 1 / 2;

/**
 * Stores the evidence behind the ledger's numbers as records of the ledger. No bill depends on it:
 * losing it loses only explanations (docs/explanation/metering.md#what-stands-behind-a-number).
 */
export class Explanations {
  readonly #ledger: Pick<Ledger, 'records' | 'stats'>;
  /** Explains events without evidence in the ledger, from the files of an earlier release. */
  readonly #older: { find(event: UsageEvent): Promise<FoundExplanation | undefined> };
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #logger: Logger;
  readonly #budget = new TenantBudget();
  #log = new EvidenceLog();
  #closings = 0;
  #lastClosedAt = -Infinity;
  #failing = false;

  constructor(
    ledger: Pick<Ledger, 'records' | 'stats'>,
    older: { find(event: UsageEvent): Promise<FoundExplanation | undefined> },
    clock: Pick<Clock, 'monotonic'>,
    logger: Logger,
  ) {
    this.#ledger = ledger;
    this.#older = older;
    this.#clock = clock;
    this.#logger = logger;
  }

  /** Returns evidence records of a window, for the batch that appends its events. Never throws. */
  async recordsFor(closed: ClosedCharges): Promise<readonly RecordChange[]> {
    try {
      // Records are read in the order of their closings. A clock that was set back would break it.
      if (closed.closedAt < this.#lastClosedAt) this.#log = new EvidenceLog();
      this.#lastClosedAt = closed.closedAt;
      const records = await this.#records(closed);
      this.#failing = false;
      return records;
    } catch (error) {
      // The log contains changes that are in no record.
      this.#log = new EvidenceLog();
      this.#warn(error);
      return [];
    }
  }

  async find(event: UsageEvent): Promise<FoundExplanation> {
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
        if (changes?.replacesEarlier === true) isLeftOut = false;
        if (changes !== undefined) explainer.add({ start, changes });
        const isRequested = record.end === end && record.closedAt === closedAt;
        if (isRequested) decodeAmounts(record.amounts, amounts);
      }
    } catch {
      // Damaged evidence explains nothing, but is no reason to fail.
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
    const slice = new TimeSlice(this.#clock);
    for (const evidence of this.#log.close({ ...closed, sources: this.#within(closed) })) {
      if (slice.isOver) await slice.next();
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

  /** The charges to store. Leaves out tenants that exceeded their limit of the day. */
  #within({ sources }: ClosedCharges): readonly Settled[] {
    return sources.filter(({ charge }) => !this.#budget.isExceeded(charge.identity.tenant));
  }

  /** Sorts after all earlier closings, also of earlier processes: the head never goes back. */
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

  /** Logs one line when storing evidence begins to fail. */
  #warn(error: unknown): void {
    const line = `[controller] explanations: cannot store evidence: ${errorText(error)}; billing continues without it`;
    if (!this.#failing) this.#logger.warn(line);
    this.#failing = true;
  }
}

const NOT_STORED =
  'no evidence is stored: its tenant cluster had so many changes that day that its space was used up, its record is damaged, or an earlier release made the event';

/** Pads a number so that its text sorts by its value. */
function padded(number: number): string {
  return String(number).padStart(15, '0');
}
