import { type FileHandle, open, rename, rm } from 'node:fs/promises';
import { promisify } from 'node:util';
import { zstdCompress, zstdDecompress } from 'node:zlib';

/**
 * One file of explanations: a compressed block for each tenant, then the table of blocks, then the
 * table's length and a mark. What is asked for is one tenant's, so no answer reads more than a block.
 */
const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);

const MARK = 'mfx1';
const FOOTER_BYTES = 4 + MARK.length;
/** A block is bounded by the shares kept for each event; anything larger is damage. */
const MAX_BLOCK_BYTES = 64 * 2 ** 20;

type Table = readonly (readonly [tenant: string, offset: number, length: number])[];

/** Writes a file whole or not at all, block by block, so that memory holds one of them; gives its size. */
export async function writeExplanationFile(
  path: string,
  blocks: Iterable<readonly [tenant: string, text: string]>,
): Promise<number> {
  const underWay = `${path}.tmp`;
  const file = await open(underWay, 'w', 0o600);
  try {
    const table: (readonly [string, number, number])[] = [];
    let offset = 0;
    const append = async (bytes: Buffer): Promise<number> => {
      await file.write(bytes);
      offset += bytes.length;
      return bytes.length;
    };
    for (const [tenant, text] of blocks) {
      const begin = offset;
      table.push([tenant, begin, await append(await compress(text))]);
    }
    const length = await append(await compress(JSON.stringify(table)));
    const footer = Buffer.alloc(FOOTER_BYTES);
    footer.writeUInt32BE(length);
    footer.write(MARK, 4);
    await append(footer);
    await file.close();
    await rename(underWay, path);
    return offset;
  } catch (error) {
    await file.close().catch(() => undefined);
    await rm(underWay, { force: true });
    throw error;
  }
}

/** A tenant's block; undefined when the file has none. Throws when the file is damaged. */
export async function readExplanationFile(
  path: string,
  tenant: string,
): Promise<string | undefined> {
  const file = await open(path);
  try {
    const { size } = await file.stat();
    const footer = await bytesAt(file, size - FOOTER_BYTES, FOOTER_BYTES);
    if (footer.toString('latin1', 4) !== MARK) throw new Error('not written to its end');
    const length = footer.readUInt32BE();
    const packed = await bytesAt(file, size - FOOTER_BYTES - length, length);
    const table = JSON.parse(await unpacked(packed)) as Table;
    const block = table.find(([name]) => name === tenant);
    if (block === undefined) return undefined;
    const [, begin, bytes] = block;
    return await unpacked(await bytesAt(file, begin, bytes));
  } finally {
    await file.close();
  }
}

async function bytesAt(file: FileHandle, offset: number, length: number): Promise<Buffer> {
  if (offset < 0 || length > MAX_BLOCK_BYTES) throw new Error('its table is wrong');
  const { bytesRead, buffer } = await file.read(Buffer.alloc(length), 0, length, offset);
  if (bytesRead < length) throw new Error('it ends early');
  return buffer;
}

async function unpacked(bytes: Buffer): Promise<string> {
  const text = await decompress(bytes, { maxOutputLength: MAX_BLOCK_BYTES });
  return text.toString();
}
