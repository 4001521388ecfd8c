import { crc32 } from 'node:zlib';

/** Bytes of the checksum that leads every value but an id's. */
const CHECKSUM_BYTES = 4;

/** A value led by the CRC-32 of its key and itself, so that a flipped bit in either is noticed. */
export function sealValue(key: Buffer, body: string | Buffer): Buffer {
  const bytes = typeof body === 'string' ? Buffer.byteLength(body) : body.length;
  const value = Buffer.allocUnsafe(CHECKSUM_BYTES + bytes);
  if (typeof body === 'string') value.write(body, CHECKSUM_BYTES);
  else body.copy(value, CHECKSUM_BYTES);
  value.writeUInt32BE(crc32(value.subarray(CHECKSUM_BYTES), crc32(key)));
  return value;
}

/** The body of a value made by {@link sealValue}, or undefined when key or value are damaged. */
export function openValue(key: Buffer, value: Buffer): Buffer | undefined {
  if (value.length < CHECKSUM_BYTES) return undefined;
  const body = value.subarray(CHECKSUM_BYTES);
  return checksumOf(value) === crc32(body, crc32(key)) ? body : undefined;
}

/** The checksum at the front of a value. */
export function checksumOf(value: Buffer): number {
  return value.readUInt32BE();
}
