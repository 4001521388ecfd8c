import type { Ledger, RecordChange, WriteOutcome } from '../../ledger/ledger.ts';
import { omitUndefined } from '../../model/omit-undefined.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { QueuedEvent, SettledEvent } from '../delivery-result.ts';
import type { ParkedTenants } from '../lanes/parked-tenants.ts';
import type { Acknowledgements } from './acknowledgements.ts';
import type { DeadLetterIndex } from './dead-letters.ts';
import type { DeliveryRecords } from './delivery-records.ts';
import type { InFlight } from './in-flight.ts';

/**
 * Turns what became of events into ledger records, and, once these are written, into what is remembered
 * in memory. Events come from the ledger (the cursor passes them) or from a lane of kept ones
 * (`dropFrom` removes them there in the same write).
 */
export interface SettlementWriter {
  recordsOf(
    settled: readonly SettledEvent[],
    dropFrom?: (queued: QueuedEvent) => RecordChange,
  ): RecordChange[];
  /** After the records of these were written. */
  written(settled: readonly SettledEvent[]): void;
  /** Writes the records of a lane's events, and remembers them. */
  write(
    settled: readonly SettledEvent[],
    dropFrom: (queued: QueuedEvent) => RecordChange,
  ): Promise<WriteOutcome>;
}

export interface SettlementWriterOptions {
  readonly ledger: Ledger;
  readonly records: DeliveryRecords;
  readonly clock: Clock;
  readonly deadLetters: DeadLetterIndex;
  readonly parked: ParkedTenants;
  readonly inFlight: InFlight;
  readonly acknowledgements: Acknowledgements;
}

export function createSettlementWriter(options: SettlementWriterOptions): SettlementWriter {
  const { ledger, records, clock, deadLetters, parked, inFlight, acknowledgements } = options;

  const recordsOf: SettlementWriter['recordsOf'] = (settled, dropFrom) => {
    const at = clock.now();
    const changes: RecordChange[] = [];
    for (const queued of settled) {
      const { sequence, event, result } = queued;
      if (dropFrom !== undefined) changes.push(dropFrom(queued));
      switch (result.kind) {
        case 'dead': {
          const { reason, unansweredSince } = result;
          const more = omitUndefined({ unansweredSince });
          changes.push(records.putDead({ sequence, event, at, reason, ...more }));
          break;
        }
        case 'parked': {
          const more = omitUndefined({ unansweredSince: inFlight.unansweredSince(queued) });
          changes.push(records.putParked({ sequence, event, at, reason: result.reason, ...more }));
          break;
        }
        default:
          // An operator may have moved the cursor back over a dead letter, and it is accepted this time.
          if (deadLetters.has(sequence)) changes.push(records.dropDead(sequence));
      }
    }
    return [
      ...changes,
      ...inFlight.without(settled.map(({ sequence }) => sequence)),
      ...acknowledgements.recordsOf(delivered(settled)),
    ];
  };

  const written: SettlementWriter['written'] = (settled) => {
    inFlight.forget(settled.map(({ sequence }) => sequence));
    acknowledgements.written(delivered(settled));
    for (const one of settled) {
      if (one.result.kind === 'dead') deadLetters.add(one);
      else deadLetters.remove(one);
      if (one.result.kind === 'parked') parked.keptEvent(one.event.tenant);
    }
  };

  return {
    recordsOf,
    written,
    write: async (settled, dropFrom) => {
      const outcome = await ledger.writeRecords(recordsOf(settled, dropFrom));
      if (outcome.kind === 'written') written(settled);
      return outcome;
    },
  };
}

function delivered(settled: readonly SettledEvent[]): number[] {
  return settled.flatMap(({ sequence, result }) => (result.kind === 'delivered' ? [sequence] : []));
}
