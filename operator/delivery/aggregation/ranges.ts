import type { Ledger, RecordChange, WriteOutcome } from '../../ledger/ledger.ts';
import type { DeliveryRecords } from '../records/delivery-records.ts';
import type { AggregatedRange } from '../records/aggregated-range.ts';

/** Which stretches of the ledger one destination got as sums, as far as the ledger still has them. */
export interface AggregatedRanges {
  load(): Promise<void>;
  /** The one that begins after a sequence number. */
  after(sequence: number): AggregatedRange | undefined;
  /** The one that an event is in. */
  of(sequence: number): AggregatedRange | undefined;
  /** Where the next one begins, at or behind a sequence number. */
  nextFrom(sequence: number): number | undefined;
  readonly isEmpty: boolean;
  /** Must succeed before anything of it is sent. */
  seal(range: AggregatedRange): Promise<WriteOutcome>;
  /** Its record once its sums up to `doneTo` are settled, to be written with what settles them. */
  progressOf(range: AggregatedRange, doneTo: number | undefined): RecordChange;
  /** After that was written. */
  progressed(range: AggregatedRange, doneTo: number | undefined): AggregatedRange;
}

export function createAggregatedRanges(
  ledger: Pick<Ledger, 'lowWater' | 'writeRecords'>,
  records: DeliveryRecords,
): AggregatedRanges {
  /** By `from`, ascending; they do not overlap. */
  let ranges: readonly AggregatedRange[] = [];
  const moved = ({ from, to, cuts }: AggregatedRange, doneTo?: number): AggregatedRange => ({
    from,
    to,
    ...(cuts !== undefined && { cuts }),
    ...(doneTo !== undefined && { doneTo }),
  });

  return {
    load: async () => {
      ranges = [];
      for await (const range of records.aggregated()) ranges = [...ranges, range];
    },
    after: (sequence) => ranges.find(({ from }) => from === sequence),
    of: (sequence) => ranges.find(({ from, to }) => from < sequence && sequence <= to),
    nextFrom: (sequence) => ranges.find(({ from }) => from >= sequence)?.from,
    get isEmpty() {
      return ranges.length === 0;
    },
    seal: async (range) => {
      const gone = ranges.filter(({ to }) => to <= ledger.lowWater());
      const outcome = await ledger.writeRecords([
        ...gone.map(({ from }) => records.dropAggregated(from)),
        records.putAggregated(range),
      ]);
      if (outcome.kind === 'written') {
        const kept = ranges.filter((one) => !gone.includes(one) && one.from !== range.from);
        ranges = [...kept, range].toSorted((a, b) => a.from - b.from);
      }
      return outcome;
    },
    progressOf: (range, doneTo) => records.putAggregated(moved(range, doneTo)),
    progressed: (range, doneTo) => {
      const next = moved(range, doneTo);
      ranges = ranges.map((one) => (one.from === range.from ? next : one));
      return next;
    },
  };
}
