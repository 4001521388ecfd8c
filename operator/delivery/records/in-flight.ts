import type { Ledger, RecordChange, WriteOutcome } from '../../ledger/ledger.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { DeliveryRecords } from './delivery-records.ts';
import type { QueuedEvent } from '../delivery-result.ts';

/**
 * An id is taken to be forgotten after this share of the time for which the other side says that it
 * remembers it. Asking costs little; and the wall clock, the only one that outlives the process, may
 * have been set back by hours meanwhile.
 */
const TRUSTED_SHARE = 0.5;

/**
 * Remembers durably when an event was first sent, for destinations that forget ids
 * (docs/delivery.md#memory-of-ids). An event whose outcome is unknown and older than that memory must be asked after, never sent blindly:
 * it may be there already and would be billed twice.
 */
export interface InFlight {
  load(resentUntil: number | undefined): Promise<void>;
  /** Those that the other side may have had and forgotten. */
  overdue(queued: readonly QueuedEvent[]): readonly QueuedEvent[];
  /** Those that were sent before, as far as is known, without an answer for good. */
  mayHave(queued: readonly QueuedEvent[]): readonly QueuedEvent[];
  /** Must succeed before the events are sent. */
  begin(queued: readonly QueuedEvent[]): Promise<WriteOutcome>;
  /** The other side does not have these: their time begins anew. */
  restart(queued: readonly QueuedEvent[]): void;
  /** The record without these, to be written with what settles them. */
  without(sequences: readonly number[]): readonly RecordChange[];
  /** After that was written. */
  forget(sequences: readonly number[]): void;
}

export function createInFlight(
  ledger: Ledger,
  records: DeliveryRecords,
  clock: Clock,
  idMemoryMs: number | undefined,
): InFlight {
  if (idMemoryMs === undefined) return UNNEEDED;
  const firstAttempts = new Map<number, number>();
  let resentUntil = 0;
  /** Sequence numbers below `resentUntil` that were asked after since. */
  const askedAfter = new Set<number>();

  const isOverdue = ({ sequence }: QueuedEvent): boolean => {
    if (sequence <= resentUntil && !askedAfter.has(sequence)) return true;
    const at = firstAttempts.get(sequence);
    if (at === undefined) return false;
    const age = clock.now() - at;
    return age < 0 || age >= idMemoryMs * TRUSTED_SHARE;
  };

  return {
    load: async (until) => {
      resentUntil = until ?? 0;
      askedAfter.clear();
      for (const [sequence, at] of (await records.inFlight()) ?? [])
        firstAttempts.set(sequence, at);
    },
    overdue: (queued) => queued.filter(isOverdue),
    mayHave: (queued) => queued.filter((one) => firstAttempts.has(one.sequence) || isOverdue(one)),
    begin: async (queued) => {
      const added = queued.filter(({ sequence }) => !firstAttempts.has(sequence));
      if (added.length === 0) return WRITTEN;
      const now = clock.now();
      const next = [...firstAttempts, ...added.map(({ sequence }) => [sequence, now] as const)];
      const outcome = await ledger.writeRecords([records.putInFlight(next)]);
      if (outcome.kind === 'written') {
        for (const { sequence } of added) firstAttempts.set(sequence, now);
      }
      return outcome;
    },
    restart: (queued) => {
      for (const { sequence } of queued) {
        firstAttempts.delete(sequence);
        askedAfter.add(sequence);
      }
    },
    without: (sequences) => {
      if (!sequences.some((sequence) => firstAttempts.has(sequence))) return [];
      const gone = new Set(sequences);
      return [records.putInFlight([...firstAttempts].filter(([sequence]) => !gone.has(sequence)))];
    },
    forget: (sequences) => {
      for (const sequence of sequences) {
        firstAttempts.delete(sequence);
        askedAfter.delete(sequence);
      }
    },
  };
}

const WRITTEN: WriteOutcome = { kind: 'written' };

/** For destinations that remember ids for ever. */
const UNNEEDED: InFlight = {
  load: async () => undefined,
  overdue: () => [],
  mayHave: () => [],
  begin: async () => WRITTEN,
  restart: () => undefined,
  without: () => [],
  forget: () => undefined,
};
