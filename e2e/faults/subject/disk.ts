import { closeSync, openSync, readSync, statSync, writeSync } from 'node:fs';

/** The disk of a process under test, and how to make it misbehave. */
export interface Disk {
  /** Bytes that can still be written. */
  freeBytes(): number;
  /** Without limits and faults from here. */
  repair(): void;
  /** Undefined: as many as one likes. */
  setRoom(bytes: number | undefined): void;
  /** The n-th sync from here fails with EIO, and so many in a row with it. */
  failSync(nth: number, times: number): void;
  /** Bytes of the trace so far. */
  traced(): number;
}

/** Without limits and faults. */
export const SOUND_DISK: Disk = {
  freeBytes: () => 1024 ** 3,
  repair: () => undefined,
  setRoom: () => undefined,
  failSync: () => {
    throw new Error('faults: this process has no faulty disk');
  },
  traced: () => 0,
};

/** Eight bytes each, as `disk/shim.c` has them. */
const SLOTS = { syncs: 0, failFrom: 1, failUntil: 2, forgetSyncs: 3, room: 4 } as const;
const SLOT_BYTES = 8;
const UNLIMITED = -1n;
export const CONTROL_BYTES = SLOT_BYTES * Object.keys(SLOTS).length;

/** From the start of a process on. */
export interface InitialFaults {
  /** Syncs do nothing. */
  readonly forgetSyncs?: boolean;
  /** The number of the sync that fails with EIO, counted from 1. */
  readonly failSync?: number;
}

/** What the control file of a shim begins with. */
export function initialControl({ forgetSyncs = false, failSync = 0 }: InitialFaults): Buffer {
  const content = Buffer.alloc(CONTROL_BYTES);
  content.writeBigInt64LE(forgetSyncs ? 1n : 0n, SLOTS.forgetSyncs * SLOT_BYTES);
  content.writeBigInt64LE(BigInt(failSync), SLOTS.failFrom * SLOT_BYTES);
  content.writeBigInt64LE(failSync === 0 ? 0n : BigInt(failSync + 1), SLOTS.failUntil * SLOT_BYTES);
  content.writeBigInt64LE(UNLIMITED, SLOTS.room * SLOT_BYTES);
  return content;
}

/** Drives the shim that is preloaded into this process. */
export function openFaultyDisk(controlFile: string, traceFile: string): Disk {
  const file = openSync(controlFile, 'r+');
  process.once('exit', () => closeSync(file));
  const read = (slot: keyof typeof SLOTS): bigint => {
    const value = Buffer.alloc(SLOT_BYTES);
    readSync(file, value, 0, SLOT_BYTES, SLOTS[slot] * SLOT_BYTES);
    return value.readBigInt64LE();
  };
  const write = (slot: keyof typeof SLOTS, content: bigint): void => {
    const value = Buffer.alloc(SLOT_BYTES);
    value.writeBigInt64LE(content);
    writeSync(file, value, 0, SLOT_BYTES, SLOTS[slot] * SLOT_BYTES);
  };
  return {
    freeBytes: () => {
      const room = read('room');
      return room === UNLIMITED ? SOUND_DISK.freeBytes() : Math.max(0, Number(room));
    },
    repair: () => {
      write('failUntil', 0n);
      write('room', UNLIMITED);
    },
    setRoom: (bytes) => write('room', bytes === undefined ? UNLIMITED : BigInt(bytes)),
    failSync: (nth, times) => {
      const from = read('syncs') + BigInt(nth);
      write('failFrom', from);
      write('failUntil', from + BigInt(times));
    },
    traced: () => statSync(traceFile, { throwIfNoEntry: false })?.size ?? 0,
  };
}
