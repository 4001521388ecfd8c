import type { Ledger, RecordChange } from '../../ledger/ledger.ts';
import type { DeliveryRecords } from './delivery-records.ts';

/** Events whose bits are one record. */
const CHUNK_EVENTS = 4_096;

/**
 * Which events a destination has acknowledged, for those that cannot be asked what they have
 * (docs/explanation/delivery.md#reconciliation). One bit for each sequence number, so that an event that is acknowledged again,
 * after the cursor was put back or a letter was replayed, counts once.
 */
export interface Acknowledgements {
  load(): Promise<void>;
  has(sequence: number): boolean;
  /** The records with these added, to be written with what settles them. */
  recordsOf(sequences: readonly number[]): RecordChange[];
  /** After that was written. */
  written(sequences: readonly number[]): void;
}

export function createAcknowledgements(
  ledger: Pick<Ledger, 'lowWater'>,
  records: DeliveryRecords,
): Acknowledgements {
  const chunks = new Map<number, Buffer>();
  /** Deleted by the ledger; their records go with the next write that begins a chunk. */
  let deleted: readonly number[] = [];

  /** The chunks that hold the sequence numbers, as they are once these are added. */
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

/** Never cut from Node's pool of small buffers: 512 bytes would keep 64 KiB of it for as long as the ledger has the events. */
function copyOf(bits: Buffer | undefined): Buffer {
  const copy = Buffer.alloc(CHUNK_EVENTS / 8);
  bits?.copy(copy);
  return copy;
}

/** For destinations that can be asked. */
export const NO_ACKNOWLEDGEMENTS: Acknowledgements = {
  load: async () => undefined,
  has: () => false,
  recordsOf: () => [],
  written: () => undefined,
};
