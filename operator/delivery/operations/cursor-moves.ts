import type { DestinationSettings } from '../../settings/settings.ts';
import type { Destination } from '../../destinations/destination.ts';
import { type Ledger, LedgerReadError } from '../../ledger/ledger.ts';
import type { QueuedEvent } from '../delivery-result.ts';
import type { DeliveryRecords } from '../records/delivery-records.ts';
import { addUnsent, type UnsentRanges, unsentAfter, unsentUpTo } from '../records/sequence-sets.ts';
import type { ClosedPeriods } from './closed-periods.ts';
import { failureOf, type MoveOutcome, type OperationFailed } from './outcomes.ts';

/** Events in one read. */
const PAGE_EVENTS = 5_000;
const HOUR_MS = 3_600_000;

export interface CursorMovesOptions {
  readonly settings: DestinationSettings;
  readonly destination: Pick<Destination, 'limits' | 'verify'>;
  readonly ledger: Ledger;
  readonly records: DeliveryRecords;
  readonly closedPeriods: ClosedPeriods;
}

/** Moves the cursor of a destination by hand, while its feeder is paused. */
export class CursorMoves {
  readonly #options: CursorMovesOptions;

  constructor(options: CursorMovesOptions) {
    this.#options = options;
  }

  /** Implements `Operations.moveCursor`. */
  async moveTo(sequence: number, force: boolean): Promise<MoveOutcome> {
    const { settings, ledger, records, destination, closedPeriods } = this.#options;
    const [low, head] = [ledger.lowWater(), ledger.head()];
    if (sequence < low || sequence > head) {
      const reason = `cursor outside of the stored events, ${low} to ${head}: cursor: "${sequence}"`;
      return { kind: 'failed', reason };
    }
    const sumsUntil = await records.sumsUntil();
    if (sequence < sumsUntil) {
      const reason = `an earlier version sent events up to ${sumsUntil} as sums of hours, and would bill them a second time: cursor: "${sequence}"; choose ${sumsUntil} or more`;
      return { kind: 'failed', reason };
    }
    const position = cursorOf(ledger, settings.name) ?? sequence;
    const forward = sequence > position;
    const between = this.#between(sequence, position, force);
    const closed = forward ? undefined : await closedPeriods(between);
    if (closed !== undefined && !force) return { kind: 'wants-force', reason: closed };
    const failed = await (forward ? this.#skip(position, sequence) : this.#rewind(sequence));
    if (failed !== undefined) return failed;
    const warnings = moveWarnings(position, sequence, destination);
    return { kind: 'moved', sequence, warnings, forced: closed };
  }

  /** Yields stored events between two positions. Skips unreadable events by force only. */
  async *#between(after: number, to: number, force: boolean): AsyncGenerator<QueuedEvent> {
    let position = after;
    while (position < to) {
      const page = await this.#options.ledger.read(position, PAGE_EVENTS);
      if (page.kind === 'failed' && !force) throw new LedgerReadError(page);
      if (page.kind === 'failed' || page.events.length === 0) return;
      yield* page.events.filter(({ sequence }) => sequence <= to);
      position = page.lastSequence;
    }
  }

  /** Skips events and notes them in the same write, except those the cursor had passed. */
  async #skip(from: number, to: number): Promise<OperationFailed | undefined> {
    const { settings, records, ledger } = this.#options;
    const passed = Math.max(from, (await records.state())?.resentUntil ?? 0);
    const unsent = addUnsent(await unsentOf(records, ledger), passed + 1, to);
    const commit = { from, records: [records.putUnsent(unsent)] };
    return failureOf(await ledger.commitCursor(settings.name, to, commit));
  }

  async #rewind(sequence: number): Promise<OperationFailed | undefined> {
    const { settings, records, ledger } = this.#options;
    const position = cursorOf(ledger, settings.name);
    if (position !== undefined && sequence < position) {
      const state = (await records.state()) ?? { type: settings.type };
      const resentUntil = Math.max(position, state.resentUntil ?? 0);
      const noted = await ledger.writeRecords([
        records.putState({ ...state, resentUntil }),
        records.putUnsent(unsentUpTo(await unsentOf(records, ledger), sequence)),
      ]);
      if (noted.kind === 'failed') return failureOf(noted);
    }
    return failureOf(await ledger.moveCursor(settings.name, sequence));
  }
}

/** Returns the cursor of a destination; undefined if it has none. */
export function cursorOf(ledger: Pick<Ledger, 'cursors'>, name: string): number | undefined {
  return ledger.cursors().find(({ destination }) => destination === name)?.sequence;
}

/** Returns the ranges of stored events that the cursor has passed unsent. */
export async function unsentOf(
  records: Pick<DeliveryRecords, 'unsent'>,
  ledger: Pick<Ledger, 'lowWater'>,
): Promise<UnsentRanges> {
  return unsentAfter(await records.unsent(), ledger.lowWater());
}

/** Returns warnings for an operator who moves a cursor by hand. */
function moveWarnings(
  from: number,
  to: number,
  { limits, verify }: Pick<Destination, 'limits' | 'verify'>,
): readonly string[] {
  if (to > from) return [`${to - from} events are skipped: they will not be delivered`];
  if (to === from) return [];
  const warnings = [`${from - to} events are sent again`];
  const { idMemoryMs, leastIdMemoryMs, maxAgeMs } = limits;
  if (idMemoryMs !== undefined) {
    const check = verify === undefined ? 'become dead letters' : 'are queried before they are sent';
    warnings.push(
      `the destination remembers ids for ${idMemoryMs / HOUR_MS} hours: events that it may already have ${check}`,
    );
  }
  if (leastIdMemoryMs !== undefined) {
    warnings.push(
      `the destination may forget ids after ${leastIdMemoryMs / HOUR_MS} hours: events whose ids it has forgotten are billed twice`,
    );
  }
  if (maxAgeMs !== undefined) {
    warnings.push(
      `events older than ${maxAgeMs / HOUR_MS} hours are not accepted and become dead letters`,
    );
  }
  return warnings;
}
