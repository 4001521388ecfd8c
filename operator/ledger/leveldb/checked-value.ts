import { crc32 } from 'node:zlib';

/** Bytes of the checksum that leads every value but an id's. */
const CHECKSUM_BYTES = 4;

/**
 * A value led by its CRC-32. The CRC starts from a number that belongs to the key, so that a value
 * under a wrong key is noticed too: {@link keySeed}, or an event's sequence number.
 */
export function sealValue(seed: number, body: string | Buffer): Buffer {
  const bytes = typeof body === 'string' ? Buffer.byteLength(body) : body.length;
  const value = Buffer.allocUnsafe(CHECKSUM_BYTES + bytes);
  if (typeof body === 'string') value.write(body, CHECKSUM_BYTES);
  else body.copy(value, CHECKSUM_BYTES);
  value.writeUInt32BE(crc32(value.subarray(CHECKSUM_BYTES), seed));
  return value;
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

/** What the checksum of an entry starts from: the CRC-32 of its key. */
export function keySeed(key: Buffer): number {
  return crc32(key);
}
