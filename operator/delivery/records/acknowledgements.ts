import type { Ledger, RecordChange } from '../../ledger/ledger.ts';
import type { DeliveryRecords } from './delivery-records.ts';

/** Number of events in one record of bits. */
const CHUNK_EVENTS = 4_096;

/**
 * The events that a destination has acknowledged, for destinations that do not report sums
 * (docs/explanation/delivery.md#reconciliation). There is one bit for each sequence number: an
 * event that is acknowledged again, after a rewound cursor or a replay, counts once.
 */
export interface Acknowledgements {
  load(): Promise<void>;
  has(sequence: number): boolean;
  /** Returns the records with these added. Write them with what settles the events. */
  recordsOf(sequences: readonly number[]): RecordChange[];
  /** Call after the records of {@link recordsOf} were written. */
  written(sequences: readonly number[]): void;
}

export function createAcknowledgements(
  ledger: Pick<Ledger, 'lowWater'>,
  records: DeliveryRecords,
): Acknowledgements {
  const chunks = new Map<number, Buffer>();
  /** Chunks without events in the ledger. The next write that begins a chunk drops them. */
  let deleted: readonly number[] = [];

  /** Returns the chunks of the sequence numbers, with these added. */
  const changed = (sequences: readonly number[]): ReadonlyMap<number, Buffer> => {
    const after = new Map<number, Buffer>();
    for (const sequence of sequences) {
      const chunk = chunkOf(sequence);
      const bits = after.get(chunk) ?? copyOf(chunks.get(chunk));
      const bit = sequence % CHUNK_EVENTS;
      bits[bit >>> 3] = (bits[bit >>> 3] ?? 0) | (1 << (bit & 7));
      after.set(chunk, bits);
    }
    return after;
  };
  const isDeleted = (chunk: number): boolean => (chunk + 1) * CHUNK_EVENTS <= ledger.lowWater();

  return {
    load: async () => {
      for await (const [chunk, bits] of records.acknowledged()) chunks.set(chunk, copyOf(bits));
    },
    has: (sequence) => {
      const bit = sequence % CHUNK_EVENTS;
      return (((chunks.get(chunkOf(sequence))?.[bit >>> 3] ?? 0) >>> (bit & 7)) & 1) === 1;
    },
    recordsOf: (sequences) => {
      const after = [...changed(sequences)];
      const begins = after.some(([chunk]) => !chunks.has(chunk));
      deleted = begins ? [...chunks.keys()].filter(isDeleted) : [];
      return [
        ...after.map(([chunk, bits]) => records.putAcknowledged(chunk, bits)),
        ...deleted.map((chunk) => records.dropAcknowledged(chunk)),
      ];
    },
    written: (sequences) => {
      for (const [chunk, bits] of changed(sequences)) chunks.set(chunk, bits);
      for (const chunk of deleted) chunks.delete(chunk);
      deleted = [];
    },
  };
}

function chunkOf(sequence: number): number {
  return Math.floor(sequence / CHUNK_EVENTS);
}

/** Copies outside Node's buffer pool: 512 bytes of a pool would keep 64 KiB alive. */
function copyOf(bits: Buffer | undefined): Buffer {
  const copy = Buffer.alloc(CHUNK_EVENTS / 8);
  bits?.copy(copy);
  return copy;
}

/** For destinations that report their sums. */
export const NO_ACKNOWLEDGEMENTS: Acknowledgements = {
  load: async () => undefined,
  has: () => false,
  recordsOf: () => [],
  written: () => undefined,
};
