import { type FileHandle, open } from 'node:fs/promises';
import { promisify } from 'node:util';
import { crc32, zstdDecompress } from 'node:zlib';
import type { SpanAmounts } from '../meters/evidence-changes.ts';
import type { ClosingEvidence } from '../meters/explanation.ts';
import { decodeAmounts } from './amounts.ts';
import { type ChangeLists, decodeChanges } from './changes-text.ts';
import type { Closing } from './evidence-record.ts';

/**
 * An evidence file of an earlier release has one frame for each closing of a window. A frame has
 * these parts:
 * 1. A header.
 * 2. Blocks with changes, each of several tenants. With the mark `mfe1`, each is of one tenant.
 * 3. One block of amounts for each tenant with amounts in the window.
 * 4. Two tables with the places of each tenant's blocks.
 */
const decompress = promisify(zstdDecompress);

const MARKS: ReadonlySet<string> = new Set(['mfe2', 'mfe1']);
const HEADER_BYTES = 48;
/** Anything larger is damage. */
const MAX_BLOCK_BYTES = 64 * 2 ** 20;

/**
 * Place of a block in its frame. `from` and `to` select a tenant's bytes in an unpacked block of
 * several tenants. Length 0: the tenant has no evidence from here on.
 */
type EvidencePlace = readonly [
  tenant: string,
  offset: number,
  length: number,
  from?: number,
  to?: number,
];

export type FoundEvidence =
  | { readonly kind: 'found'; readonly amounts: SpanAmounts }
  /** The file has no evidence of the tenant. */
  | { readonly kind: 'left-out' }
  | { readonly kind: 'none' };

/**
 * Reads a tenant's evidence up to a closing. Passes it to `give` closing by closing, and returns
 * the amounts of that closing. Returns `none` if the file does not have the closing, even after
 * calls of `give`.
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
      const isRequested = header.end === end && header.closedAt === closedAt;
      // Scopes of one window may close in one millisecond.
      if (isFound && !isRequested) break;
      isFound ||= isRequested;
      const frame = { file, offset, header };
      const place = await placeIn(frame, 'changed', tenant);
      if (place?.[2] === 0) return { kind: 'left-out' };
      if (place !== undefined) {
        const [, , , from, to] = place;
        const bytes = await unpacked(await blockAt(frame, place));
        const text = bytes.toString('utf8', from, to);
        give({ start: header.start, changes: decodeChanges(JSON.parse(text) as ChangeLists) });
      }
      const valued = isRequested ? await placeIn(frame, 'valued', tenant) : undefined;
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

/** Lengths in bytes: of the complete frame, and of the tables at its end. */
interface Header extends Closing {
  readonly bytes: number;
  readonly changed: number;
  readonly valued: number;
}

/** Returns undefined if the frame is not complete. */
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

async function placeIn(
  { file, offset, header }: Frame,
  table: 'changed' | 'valued',
  tenant: string,
): Promise<EvidencePlace | undefined> {
  const { bytes, changed, valued } = header;
  const length = header[table];
  if (length === 0) return undefined;
  const at = offset + bytes - valued - (table === 'changed' ? changed : 0);
  const places = JSON.parse((await unpacked(await bytesAt(file, at, length))).toString());
  return (places as readonly EvidencePlace[]).find(([of]) => of === tenant);
}

function blockAt({ file, offset }: Frame, [, at, length]: EvidencePlace): Promise<Buffer> {
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
