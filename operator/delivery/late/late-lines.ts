import { hash } from 'node:crypto';
import {
  decimalsOf,
  type LateLine,
  type LatePrice,
  type LateWay,
} from '../../destinations/late.ts';
import type { LateRefusal } from '../../destinations/destination.ts';
import type { Ledger, LedgerFailure, RecordChange, WriteOutcome } from '../../ledger/ledger.ts';
import { lateNoteOf } from '../../model/correction.ts';
import { nanosFromDecimal, roundedProduct, signedFromNanos } from '../../model/decimal.ts';
import { decodeEvent, encodeEvent, type UsageEvent } from '../../model/event.ts';
import { greatest, least } from '../../model/extremes.ts';
import { formatInstant } from '../../model/window.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { QueuedEvent } from '../delivery-result.ts';
import type { DeliveryRecords } from '../records/delivery-records.ts';
import type { LatePart, StoredLine } from '../records/late-line.ts';
import { SequenceSet } from '../records/sequence-sets.ts';

/** Most parts of a line. Each batch that adds parts writes the full record again. */
const MAX_PARTS = 500;
const HEX_DIGITS = 32;

/** A late event with its price. */
export interface PricedEvent extends QueuedEvent {
  readonly price: LatePrice;
  readonly way: LateWay;
}

/**
 * Late events that are billed separately from the usage of their time, each in exactly one line. A
 * durable write assigns the line before anything is sent. A restart, a replay and a rewound cursor
 * find the same line again.
 */
export class LateLines {
  readonly #options;
  /** The lines that are not billed yet, by id. */
  readonly #lines = new Map<string, StoredLine>();
  readonly #taken = new SequenceSet();
  readonly #problems = new Map<string, LateRefusal>();

  constructor(options: {
    readonly name: string;
    readonly ledger: Ledger;
    readonly records: Pick<DeliveryRecords, 'late' | 'putLate' | 'dropLate'>;
    readonly clock: Clock;
    /** As in {@link DeliveryOptions}. */
    readonly mayAppend?: boolean;
  }) {
    this.#options = options;
  }

  async load(): Promise<void> {
    const { ledger, records } = this.#options;
    const gone: RecordChange[] = [];
    for await (const line of records.late()) {
      const isStored = line.parts.some(({ sequence }) => sequence > ledger.lowWater());
      if (line.state === 'billed' && !isStored) gone.push(records.dropLate(line.id));
      else this.#remember(line);
    }
    if (gone.length > 0) await ledger.writeRecords(gone);
  }

  /** Returns whether an event belongs to a line, billed or not. */
  has(sequence: number): boolean {
    return this.#taken.has(sequence);
  }

  /** The lines that are not billed yet, the oldest first. */
  waiting(): readonly StoredLine[] {
    return [...this.#lines.values()].toSorted((a, b) => a.openedAt - b.openedAt);
  }

  /** Durably adds events to open lines, and opens new lines where none fits. */
  async add(events: readonly PricedEvent[]): Promise<WriteOutcome> {
    const { ledger, records, clock } = this.#options;
    const changed = new Map<string, StoredLine>();
    for (const one of events) {
      if (this.has(one.sequence)) continue;
      const known = [...this.#lines.values(), ...changed.values()].findLast((line) =>
        takesIn(changed.get(line.id) ?? line, one),
      );
      const line = (known && changed.get(known.id)) ?? known ?? this.#opened(one, clock.now());
      const parts = [...line.parts, partOf(one)];
      changed.set(line.id, {
        ...line,
        parts,
        state: parts.length < MAX_PARTS ? 'open' : 'closed',
      });
    }
    const outcome = await ledger.writeRecords([...changed.values()].map(records.putLate));
    if (outcome.kind === 'written') for (const line of changed.values()) this.#remember(line);
    return outcome;
  }

  /** Durably closes a line: nothing is added afterwards. */
  async close(line: StoredLine): Promise<WriteOutcome> {
    const { ledger, records } = this.#options;
    if (line.state !== 'open') return { kind: 'written' };
    const closed: StoredLine = { ...line, state: 'closed' };
    const outcome = await ledger.writeRecords([records.putLate(closed)]);
    if (outcome.kind === 'written') this.#remember(closed);
    return outcome;
  }

  /**
   * Notes in one write that a line was billed. If the ledger accepts events, the write also appends
   * a note for each part.
   */
  async billed(line: StoredLine, reference: string): Promise<LedgerFailure | undefined> {
    const { ledger, records, mayAppend = true } = this.#options;
    const record = records.putLate({ ...line, state: 'billed', reference });
    const outcome = mayAppend
      ? await ledger.append({ events: this.#notesOf(line, reference), records: [record] })
      : await ledger.writeRecords([record]);
    if (outcome.kind === 'failed') return outcome;
    this.#lines.delete(line.id);
    this.#problems.delete(line.id);
    return undefined;
  }

  #notesOf(line: StoredLine, reference: string): readonly UsageEvent[] {
    const { name, clock } = this.#options;
    const recordedAt = formatInstant(clock.now());
    const like = decodeEvent(line.like);
    const { number, invoice } = line.price;
    const reason = `late: its invoice ${number ?? invoice} was final`;
    return line.parts.map(({ sequence, ...part }) => {
      const event = eventOf(like, part);
      return lateNoteOf({ event, sequence }, recordedAt, {
        destination: name,
        line: reference,
        reason,
      });
    });
  }

  /** Notes that the billing system refuses a line, for the status. */
  refused(line: StoredLine, reason: string): void {
    const at = this.#problems.get(line.id)?.at ?? this.#options.clock.now();
    const example = line.parts[0]?.id ?? '';
    const amount = lateLineOf(line);
    const what = `late usage of tenant ${line.tenant} is not billed: ${amount.amount} ${amount.price.currency}`;
    this.#problems.set(line.id, {
      at,
      events: line.parts.length,
      reason: `${what}: ${reason}`,
      example,
    });
  }

  /** The refused lines with the reasons (condition `LateRefusals`). */
  problems(): readonly LateRefusal[] {
    return [...this.#problems.values()];
  }

  #remember(line: StoredLine): void {
    for (const { sequence } of line.parts) this.#taken.add(sequence);
    if (line.state !== 'billed') this.#lines.set(line.id, line);
  }

  #opened(event: PricedEvent, now: number): StoredLine {
    const { name } = this.#options;
    const { way, price, sequence } = event;
    const identity = [name, event.event.tenant, way, price.key, sequence, event.event.id];
    const digest = hash('sha256', identity.join('\0'), 'hex').slice(0, HEX_DIGITS);
    return {
      id: `late_${digest}`,
      tenant: event.event.tenant,
      way,
      price,
      like: encodeEvent(event.event),
      openedAt: now,
      state: 'open',
      parts: [],
    };
  }
}

/** Returns a line as a destination bills it: quantity, amount and text. */
export function lateLineOf({ id, way, price, like, parts }: StoredLine): LateLine {
  const { metric, unit, sku } = decodeEvent(like);
  const nanos = parts.reduce((sum, { quantity }) => sum + nanosFromDecimal(quantity), 0n);
  const quantity = signedFromNanos(nanos);
  const { each, currency } = price;
  const amount = roundedProduct(quantity, each, decimalsOf(currency)) ?? '0';
  const from = least(parts.map(({ start }) => Date.parse(start)));
  const to = greatest(parts.map(({ end }) => Date.parse(end)));
  const kind = sku === undefined ? metric : `${metric} (${sku})`;
  const stretch = `${formatInstant(from)} to ${formatInstant(to)}`;
  const text = `Late usage: ${kind}, ${quantity} ${unit} of ${stretch} at ${each} ${currency}`;
  const minor = BigInt(amount.replace('.', ''));
  return { id, way, price, metric, quantity, amount, minor, from, to, text };
}

function takesIn(
  { state, tenant, way, price }: StoredLine,
  { event, way: wanted, price: { key } }: PricedEvent,
): boolean {
  return state === 'open' && tenant === event.tenant && way === wanted && price.key === key;
}

function partOf({ sequence, event }: PricedEvent): LatePart {
  const { id, window_start: start, window_end: end, quantity } = event;
  return { sequence, id, start, end, quantity };
}

function eventOf(like: UsageEvent, { id, start, end, quantity }: Omit<LatePart, 'sequence'>) {
  return { ...like, id, window_start: start, window_end: end, quantity };
}
