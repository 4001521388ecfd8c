import { crc32 } from 'node:zlib';

/** Bytes of the checksum in front of every value, except the values of ids. */
export const CHECKSUM_BYTES = 4;

/**
 * Returns a value with its CRC-32 in front. The CRC starts from a number that depends on the key:
 * {@link keySeed}, or an event's sequence number. So a value under a wrong key is detected, too.
 */
export function sealValue(seed: number, body: string): Buffer {
  const value = Buffer.allocUnsafe(CHECKSUM_BYTES + Buffer.byteLength(body));
  writeSealed(value, 0, body, seed);
  return value;
}

/** Writes a value of {@link sealValue} into a larger buffer; returns the offset after it. */
export function writeSealed(target: Buffer, offset: number, body: string, seed: number): number {
  const start = offset + CHECKSUM_BYTES;
  const end = start + target.write(body, start);
  target.writeUInt32BE(crc32(target.subarray(start, end), seed), offset);
  return end;
}

/** The body of a value made by {@link sealValue}, or undefined when it is damaged. */
export function openValue(seed: number, value: Buffer): Buffer | undefined {
  if (value.length < CHECKSUM_BYTES) return undefined;
  const body = value.subarray(CHECKSUM_BYTES);
  return checksumOf(value) === crc32(body, seed) ? body : undefined;
}

/** The checksum at the front of a value. */
export function checksumOf(value: Buffer): number {
  return value.readUInt32BE();
}

/** Start value of an entry's checksum: the CRC-32 of its key. */
export function keySeed(key: Buffer): number {
  return crc32(key);
}
