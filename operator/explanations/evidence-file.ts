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
 * events. A frame is a header, blocks of what is new, each of some tenants together, one block for each tenant whose
 * amounts are its window's only, and two tables that say where a tenant's are. The header is written last: a frame
 * without one was never finished. A frame marked `mfe1`, of an earlier release, has a block of what is new for each tenant.
 */
const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);

const MARK = 'mfe2';
const MARKS: ReadonlySet<string> = new Set([MARK, 'mfe1']);
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

/**
 * Where a block is in its frame, and for one of several tenants which of its bytes are this one's once it is
 * unpacked. A length of 0 says that the tenant's evidence is not kept from here on.
 */
type Place = readonly [tenant: string, offset: number, length: number, from?: number, to?: number];

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
    for await (const { block, members } of packedInOrder(evidence, turn)) {
      const kept = members.filter(({ tenant, share, values }) => {
        const isKept = admit(tenant, share + values.length);
        if (!isKept) changed.push([tenant, 0, 0]);
        return isKept;
      });
      const told = kept.filter(({ from, to }) => to > from);
      if (told.length > 0) {
        const place = await writer.append(block);
        for (const { tenant, from, to } of told) changed.push([tenant, ...place, from, to]);
      }
      for (const { tenant, values } of kept) {
        if (values.length > 0) valued.push([tenant, ...(await writer.append(values))]);
      }
    }
    return await writer.finish(closing, await packedTable(changed), await packedTable(valued));
  } finally {
    await file.close();
  }
}

/** What a frame has of some tenants. */
interface PackedGroup {
  readonly block: Buffer;
  readonly members: readonly PackedMember[];
}

/** Whose `[from, to)` of the block is, once it is unpacked; nothing where nothing is new. */
interface PackedMember extends Member {
  /** Of the bytes of the block. */
  readonly share: number;
}

interface Member {
  readonly tenant: string;
  readonly from: number;
  readonly to: number;
  readonly values: Buffer;
}

/**
 * A block has tenants until they are so many bytes together. There may be thousands of them, of which each says
 * little: to compress it takes longer to begin than to do.
 */
const GROUP_BYTES = 64 * 1024;
const GROUP_TENANTS = 100;

/** While so many blocks are compressed, by other threads, the next is made. */
const COMPRESSED_AT_ONCE = 3;

async function* packedInOrder(
  evidence: Iterable<TenantEvidence>,
  turn: Turn,
): AsyncGenerator<PackedGroup> {
  const waiting: Promise<PackedGroup>[] = [];
  let group = new Group();
  for (const one of evidence) {
    // Where nothing is compressed nobody waits for anything, however many tenants there are.
    if (turn.isOver) await turn.next();
    group.add(one);
    if (!group.isFull) continue;
    waiting.push(packing(group));
    group = new Group();
    if (waiting.length <= COMPRESSED_AT_ONCE) continue;
    const first = waiting.shift();
    if (first !== undefined) yield await first;
  }
  waiting.push(packing(group));
  for (const made of waiting) yield await made;
}

function packing(group: Group): Promise<PackedGroup> {
  const made = group.packed();
  // Whoever comes to it is told; until then nobody waits for it.
  void made.catch(() => undefined);
  return made;
}

class Group {
  readonly #texts: Buffer[] = [];
  readonly #members: Member[] = [];
  #bytes = 0;

  /** Of those of whom nothing is new there may be thousands, too. */
  get isFull(): boolean {
    return this.#bytes >= GROUP_BYTES || this.#members.length >= GROUP_TENANTS;
  }

  add({ tenant, changes, amounts }: TenantEvidence): void {
    const from = this.#bytes;
    if (changes !== undefined) {
      const text = Buffer.from(encodeChanges(changes));
      this.#texts.push(text);
      this.#bytes += text.length;
    }
    this.#members.push({ tenant, from, to: this.#bytes, values: encodeAmounts(amounts) });
  }

  async packed(): Promise<PackedGroup> {
    const bytes = Buffer.concat(this.#texts);
    const block = bytes.length === 0 ? bytes : await packed(bytes);
    const ratio = bytes.length === 0 ? 0 : block.length / bytes.length;
    const members = this.#members.map((member) => ({
      ...member,
      share: Math.ceil((member.to - member.from) * ratio),
    }));
    return { block, members };
  }
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
        const [, , , from, to] = place;
        const bytes = await unpacked(await blockAt(frame, place));
        const text = bytes.toString('utf8', from, to);
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
  if (!MARKS.has(header.toString('latin1', 0, 4))) return undefined;
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
  return places.length === 0 ? Buffer.alloc(0) : packed(Buffer.from(JSON.stringify(places)));
}

/** Where the size is not said beforehand, a few kilobytes take megabytes to compress. */
function packed(bytes: Buffer): Promise<Buffer> {
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
