import type { Ledger, RecordChange, WriteOutcome } from '../ledger/ledger.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Acknowledgements } from './acknowledgements.ts';
import type { DeadLetterIndex } from './dead-letters.ts';
import type { DeliveryRecords } from './delivery-records.ts';
import type { Entry, Verdict } from './entry.ts';
import type { InFlight } from './in-flight.ts';
import type { ParkedTenants } from './parked-tenants.ts';

/** An event with what became of it. */
export interface JudgedEntry extends Entry {
  readonly verdict: Verdict;
}

/**
 * Turns verdicts into ledger records, and, once these are written, into what is remembered in memory.
 * Events come from the ledger (the cursor passes them) or from a lane of kept ones (`dropFrom` removes
 * them there in the same write).
 */
export interface BookKeeping {
  recordsOf(
    judged: readonly JudgedEntry[],
    dropFrom?: (entry: Entry) => RecordChange,
  ): RecordChange[];
  written(judged: readonly JudgedEntry[]): void;
  /** Writes the records of a lane's events, and remembers them. */
  write(
    judged: readonly JudgedEntry[],
    dropFrom: (entry: Entry) => RecordChange,
  ): Promise<WriteOutcome>;
}

export function createBookKeeping(
  ledger: Ledger,
  records: DeliveryRecords,
  clock: Clock,
  parts: {
    readonly deadLetters: DeadLetterIndex;
    readonly parked: ParkedTenants;
    readonly inFlight: InFlight;
    readonly acknowledgements: Acknowledgements;
  },
): BookKeeping {
  const { deadLetters, parked, inFlight, acknowledgements } = parts;

  const recordsOf: BookKeeping['recordsOf'] = (judged, dropFrom) => {
    const at = clock.now();
    const changes = judged.flatMap(({ sequence, event, verdict }): RecordChange[] => {
      const entry = { sequence, event };
      const dropped = dropFrom === undefined ? [] : [dropFrom(entry)];
      switch (verdict.kind) {
        case 'dead':
          return [...dropped, records.putDead({ ...entry, at, reason: verdict.reason })];
        case 'parked':
          return [...dropped, records.putParked({ ...entry, at, reason: verdict.reason })];
        default:
          // An operator may have moved the cursor back over a dead letter, and it is accepted this time.
          return deadLetters.has(sequence) ? [...dropped, records.dropDead(sequence)] : dropped;
      }
    });
    return [
      ...changes,
      ...inFlight.without(certain(judged)),
      ...acknowledgements.recordsOf(delivered(judged)),
    ];
  };

  const written: BookKeeping['written'] = (judged) => {
    inFlight.forget(certain(judged));
    acknowledgements.written(delivered(judged));
    for (const { sequence, event, verdict } of judged) {
      if (verdict.kind === 'dead') deadLetters.add(sequence, event.tenant);
      else deadLetters.remove(sequence, event.tenant);
      if (verdict.kind === 'parked') parked.keptEvent(event.tenant);
    }
  };

  return {
    recordsOf,
    written,
    write: async (judged, dropFrom) => {
      const outcome = await ledger.writeRecords(recordsOf(judged, dropFrom));
      if (outcome.kind === 'written') written(judged);
      return outcome;
    },
  };
}

function delivered(judged: readonly JudgedEntry[]): number[] {
  return judged
    .filter(({ verdict }) => verdict.kind === 'delivered')
    .map(({ sequence }) => sequence);
}

/**
 * Those whose first attempt need not be remembered any longer: the other side has spoken. An event that
 * is parked may have been taken by an attempt before, whose answer was lost.
 */
function certain(judged: readonly JudgedEntry[]): number[] {
  return judged
    .filter(({ verdict }) => verdict.kind !== 'parked' && !('uncertain' in verdict))
    .map(({ sequence }) => sequence);
}

/** The entries that have a verdict, with it. */
export function judge(
  entries: readonly Entry[],
  verdicts: ReadonlyMap<number, Verdict>,
): JudgedEntry[] {
  return entries.flatMap(({ sequence, event }) => {
    const verdict = verdicts.get(sequence);
    return verdict === undefined ? [] : [{ sequence, event, verdict }];
  });
}
