import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { promisify } from 'node:util';
import { crc32, zstdCompress, zstdDecompress } from 'node:zlib';
import type { SpanAmounts, TenantEvidence } from '../metering/evidence-changes.ts';
import type { ClosingEvidence } from '../metering/explanation.ts';
import type { Turn } from '../telemetry/turn.ts';
import { decodeAmounts, encodeAmounts } from './amounts.ts';
import { decodeChanges, encodeChanges } from './changes-text.ts';

/**
 * A file of evidence: one frame for each closing of a window, appended before the ledger is given its
 * events. A frame is a header, a block for each tenant that something is new of, one for each whose
 * amounts are its window's only, and two tables of those. What is asked for is one tenant's, so no
 * answer reads another's. The header is written last: a frame without one was never finished.
 */
const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);

const MARK = 'mfe1';
const HEADER_BYTES = 48;
const WRITTEN_AT_ONCE = 256 * 1024;
/** What one closing tells of a tenant is bounded by the shares kept of each charge; anything larger is damage. */
const MAX_BLOCK_BYTES = 64 * 2 ** 20;

/** Which closing of a window a frame is of. Times are milliseconds since the epoch. */
export interface Closing {
  readonly start: number;
  readonly end: number;
  readonly closedAt: number;
}

/** A length of 0 says that the tenant's evidence is not kept from here on. */
type Place = readonly [tenant: string, offset: number, length: number];

/** Whether so many more bytes of a tenant are kept. */
export type Admit = (tenant: string, bytes: number) => boolean;

/** Appends a frame at `offset`, which is the end of the frames before it; gives its size. */
export async function appendFrame(
  path: string,
  offset: number,
  closing: Closing,
  evidence: Iterable<TenantEvidence>,
  { admit, turn }: { readonly admit: Admit; readonly turn: Turn },
): Promise<number> {
  const file = await open(path, constants.O_RDWR | constants.O_CREAT, 0o600);
  try {
    const writer = new FrameWriter(file, offset);
    const changed: Place[] = [];
    const valued: Place[] = [];
    for await (const { tenant, block, values } of packedInOrder(evidence, turn)) {
      const isKept = admit(tenant, (block?.length ?? 0) + values.length);
      if (!isKept) {
        changed.push([tenant, 0, 0]);
        continue;
      }
      if (block !== undefined) changed.push([tenant, ...(await writer.append(block))]);
      if (values.length > 0) valued.push([tenant, ...(await writer.append(values))]);
    }
    return await writer.finish(closing, await packedTable(changed), await packedTable(valued));
  } finally {
    await file.close();
  }
}

/** What a frame has of one tenant. */
interface PackedEvidence {
  readonly tenant: string;
  /** Undefined where nothing is new of it. */
  readonly block: Buffer | undefined;
  readonly values: Buffer;
}

/** While the blocks of so many tenants are compressed, by other threads, that of the next is made. */
const COMPRESSED_AT_ONCE = 3;

async function* packedInOrder(
  evidence: Iterable<TenantEvidence>,
  turn: Turn,
): AsyncGenerator<PackedEvidence> {
  const waiting: Promise<PackedEvidence>[] = [];
  for (const one of evidence) {
    // Where nothing is compressed nobody waits for anything, however many tenants there are.
    if (turn.isOver) await turn.next();
    const made = packedEvidence(one);
    // Whoever comes to it is told; until then nobody waits for it.
    void made.catch(() => undefined);
    waiting.push(made);
    if (waiting.length <= COMPRESSED_AT_ONCE) continue;
    const first = waiting.shift();
    if (first !== undefined) yield await first;
  }
  for (const made of waiting) yield await made;
}

async function packedEvidence({
  tenant,
  changes,
  amounts,
}: TenantEvidence): Promise<PackedEvidence> {
  const values = encodeAmounts(amounts);
  const block = changes && (await packed(encodeChanges(changes)));
  return { tenant, block, values };
}

class FrameWriter {
  readonly #file: FileHandle;
  readonly #offset: number;
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #written = HEADER_BYTES;

  constructor(file: FileHandle, offset: number) {
    this.#file = file;
    this.#offset = offset;
  }

  /** Gives its place, from the beginning of the frame. */
  async append(block: Buffer): Promise<readonly [offset: number, length: number]> {
    const at = this.#written + this.#waitingBytes;
    this.#waiting.push(block);
    this.#waitingBytes += block.length;
    if (this.#waitingBytes >= WRITTEN_AT_ONCE) await this.#flush();
    return [at, block.length];
  }

  /** All else is on the disk before the header makes it count. */
  async finish(closing: Closing, changed: Buffer, valued: Buffer): Promise<number> {
    await this.append(changed);
    await this.append(valued);
    await this.#flush();
    const lengths = { bytes: this.#written, changed: changed.length, valued: valued.length };
    const header = encodeHeader({ ...closing, ...lengths });
    await this.#file.write(header, 0, header.length, this.#offset);
    await this.#file.datasync();
    return this.#written;
  }

  async #flush(): Promise<void> {
    const bytes = Buffer.concat(this.#waiting);
    await this.#file.write(bytes, 0, bytes.length, this.#offset + this.#written);
    this.#written += bytes.length;
    this.#waiting = [];
    this.#waitingBytes = 0;
  }
}

export type FoundEvidence =
  | { readonly kind: 'found'; readonly amounts: SpanAmounts }
  /** The tenant's evidence is not kept in this file. */
  | { readonly kind: 'left-out' }
  | { readonly kind: 'none' };

/**
 * Reads what a file tells of a tenant up to a closing, and gives it closing by closing; then the
 * amounts of that closing. `none` when the file does not have the closing, whatever was given.
 */
export async function readEvidence(
  path: string,
  tenant: string,
  { end, closedAt }: Pick<Closing, 'end' | 'closedAt'>,
  give: (evidence: ClosingEvidence) => void,
): Promise<FoundEvidence> {
  const file = await open(path);
  try {
    const { size } = await file.stat();
    const amounts: { spans: number[]; nanos: number[] } = { spans: [], nanos: [] };
    let isFound = false;
    for (let offset = 0; offset + HEADER_BYTES <= size; ) {
      const header = decodeHeader(await bytesAt(file, offset, HEADER_BYTES));
      if (header === undefined || offset + header.bytes > size) break;
      const isAsked = header.end === end && header.closedAt === closedAt;
      // Parts of one window may be closed in one millisecond.
      if (isFound && !isAsked) break;
      isFound ||= isAsked;
      const frame = { file, offset, header };
      const place = await placeIn(frame, 'changed', tenant);
      if (place?.[2] === 0) return { kind: 'left-out' };
      if (place !== undefined) {
        const text = (await unpacked(await blockAt(frame, place))).toString();
        give({ start: header.start, changes: decodeChanges(text) });
      }
      const valued = isAsked ? await placeIn(frame, 'valued', tenant) : undefined;
      if (valued !== undefined) decodeAmounts(await blockAt(frame, valued), amounts);
      offset += header.bytes;
    }
    return isFound ? { kind: 'found', amounts } : { kind: 'none' };
  } finally {
    await file.close();
  }
}

interface Frame {
  readonly file: FileHandle;
  readonly offset: number;
  readonly header: Header;
}

/** Lengths are bytes: of all of the frame, and of the tables at its end. */
interface Header extends Closing {
  readonly bytes: number;
  readonly changed: number;
  readonly valued: number;
}

function encodeHeader({ bytes, start, end, closedAt, changed, valued }: Header): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  header.write(MARK, 0, 'latin1');
  header.writeDoubleBE(bytes, 8);
  header.writeDoubleBE(start, 16);
  header.writeUInt32BE(end - start, 24);
  header.writeDoubleBE(closedAt, 28);
  header.writeUInt32BE(changed, 36);
  header.writeUInt32BE(valued, 40);
  header.writeUInt32BE(crc32(header.subarray(8)), 4);
  return header;
}

/** Undefined where no frame was finished. */
function decodeHeader(header: Buffer): Header | undefined {
  if (header.toString('latin1', 0, 4) !== MARK) return undefined;
  if (header.readUInt32BE(4) !== crc32(header.subarray(8))) return undefined;
  const start = header.readDoubleBE(16);
  return {
    bytes: header.readDoubleBE(8),
    start,
    end: start + header.readUInt32BE(24),
    closedAt: header.readDoubleBE(28),
    changed: header.readUInt32BE(36),
    valued: header.readUInt32BE(40),
  };
}

async function packedTable(places: readonly Place[]): Promise<Buffer> {
  return places.length === 0 ? Buffer.alloc(0) : packed(JSON.stringify(places));
}

/** Where the size is not said beforehand, a few kilobytes take megabytes to compress. */
function packed(text: string): Promise<Buffer> {
  const bytes = Buffer.from(text);
  return compress(bytes, { pledgedSrcSize: bytes.length });
}

async function placeIn(
  { file, offset, header }: Frame,
  table: 'changed' | 'valued',
  tenant: string,
): Promise<Place | undefined> {
  const { bytes, changed, valued } = header;
  const length = header[table];
  if (length === 0) return undefined;
  const at = offset + bytes - valued - (table === 'changed' ? changed : 0);
  const places = JSON.parse((await unpacked(await bytesAt(file, at, length))).toString());
  return (places as readonly Place[]).find(([of]) => of === tenant);
}

function blockAt({ file, offset }: Frame, [, at, length]: Place): Promise<Buffer> {
  return bytesAt(file, offset + at, length);
}

async function bytesAt(file: FileHandle, offset: number, length: number): Promise<Buffer> {
  if (length > MAX_BLOCK_BYTES) throw new Error('its table is wrong');
  const { bytesRead, buffer } = await file.read(Buffer.alloc(length), 0, length, offset);
  if (bytesRead < length) throw new Error('it ends early');
  return buffer;
}

function unpacked(bytes: Buffer): Promise<Buffer> {
  return decompress(bytes, { maxOutputLength: MAX_BLOCK_BYTES });
}
