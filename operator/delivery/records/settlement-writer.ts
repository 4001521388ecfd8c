import type { Ledger, RecordChange, WriteOutcome } from '../../ledger/ledger.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { QueuedEvent, SettledEvent } from '../delivery-result.ts';
import type { ParkedTenants } from '../lanes/parked-tenants.ts';
import type { Acknowledgements } from './acknowledgements.ts';
import type { DeadLetterIndex } from './dead-letters.ts';
import type { DeliveryRecords } from './delivery-records.ts';
import type { InFlight } from './in-flight.ts';

/**
 * Turns outcomes of events into ledger records. After these are written, it updates the indexes in
 * memory. Events come from the ledger (the cursor passes them) or from a lane of stored events
 * (`dropFrom` removes them there in the same write).
 */
export class SettlementWriter {
  readonly #options;

  constructor(options: {
    readonly ledger: Ledger;
    readonly records: DeliveryRecords;
    readonly clock: Clock;
    readonly deadLetters: DeadLetterIndex;
    readonly parked: ParkedTenants;
    readonly inFlight: InFlight;
    readonly acknowledgements: Acknowledgements;
  }) {
    this.#options = options;
  }

  recordsOf(
    settled: readonly SettledEvent[],
    dropFrom?: (queued: QueuedEvent) => RecordChange,
  ): readonly RecordChange[] {
    const { clock, inFlight, acknowledgements } = this.#options;
    const at = clock.now();
    return [
      ...settled.flatMap((one) => [
        ...(dropFrom === undefined ? [] : [dropFrom(one)]),
        ...this.#recordOf(one, at),
      ]),
      ...inFlight.without(settled.map(({ sequence }) => sequence)),
      ...acknowledgements.recordsOf(delivered(settled)),
    ];
  }

  /** Updates the indexes in memory. Call after the records of these events were written. */
  written(settled: readonly SettledEvent[]): void {
    const { deadLetters, parked, inFlight, acknowledgements } = this.#options;
    inFlight.forget(settled.map(({ sequence }) => sequence));
    acknowledgements.written(delivered(settled));
    for (const one of settled) {
      if (one.result.kind === 'dead') deadLetters.add(one);
      else deadLetters.remove(one);
      if (one.result.kind === 'parked') parked.storedEvent(one.event.tenant);
    }
  }

  /** Writes the records of a lane's events and updates the indexes in memory. */
  async write(
    settled: readonly SettledEvent[],
    dropFrom: (queued: QueuedEvent) => RecordChange,
  ): Promise<WriteOutcome> {
    const outcome = await this.#options.ledger.writeRecords(this.recordsOf(settled, dropFrom));
    if (outcome.kind === 'written') this.written(settled);
    return outcome;
  }

  #recordOf(settled: SettledEvent, at: number): readonly RecordChange[] {
    const { records, deadLetters, inFlight } = this.#options;
    const { sequence, event, result } = settled;
    switch (result.kind) {
      case 'dead': {
        const { reason, unansweredSince } = result;
        return [records.putDead({ sequence, event, at, reason, unansweredSince })];
      }
      case 'parked': {
        const { reason } = result;
        const unansweredSince = inFlight.unansweredSince(settled);
        return [records.putParked({ sequence, event, at, reason, unansweredSince })];
      }
      default:
        // A rewound cursor may deliver a dead letter that is accepted this time.
        return deadLetters.has(sequence) ? [records.dropDead(sequence)] : [];
    }
  }
}

function delivered(settled: readonly SettledEvent[]): number[] {
  return settled.flatMap(({ sequence, result }) => (result.kind === 'delivered' ? [sequence] : []));
}
