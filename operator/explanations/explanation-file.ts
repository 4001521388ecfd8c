import { type FileHandle, open, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { constants, zstdCompress, zstdDecompress } from 'node:zlib';

/**
 * One file of explanations: a compressed block for each tenant, then the table of blocks, then the
 * table's length and a mark. What is asked for is one tenant's, so no answer reads more than a block.
 * A file may lean on an earlier one beside it, its base: most objects are still there in the next
 * window, and a block that is compressed with the base's block at hand needs less than half the room.
 */
const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);

const MARK = 'mfx1';
const FOOTER_BYTES = 4 + MARK.length;
/** A block is bounded by the shares kept for each event; anything larger is damage. */
const MAX_BLOCK_BYTES = 64 * 2 ** 20;

interface Table {
  /** Name of the base. */
  readonly base?: string;
  readonly blocks: readonly (readonly [tenant: string, offset: number, length: number])[];
}

/** Writes a file whole or not at all, block by block, so that memory holds few of them; gives its size. */
export async function writeExplanationFile(
  path: string,
  texts: Iterable<readonly [tenant: string, text: string]>,
  base?: string,
): Promise<number> {
  const underWay = `${path}.tmp`;
  const file = await open(underWay, 'w', 0o600);
  try {
    const blocks: (readonly [string, number, number])[] = [];
    let offset = 0;
    const append = async (bytes: Buffer): Promise<number> => {
      await file.write(bytes);
      offset += bytes.length;
      return bytes.length;
    };
    const earlier = await openBase(path, base);
    try {
      for (const [tenant, text] of texts) {
        const begin = offset;
        blocks.push([
          tenant,
          begin,
          await append(await packed(text, await earlier?.block(tenant))),
        ]);
      }
    } finally {
      await earlier?.close();
    }
    const table = earlier === undefined ? { blocks } : { base, blocks };
    const length = await append(await packed(JSON.stringify(table), undefined));
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

/** A tenant's text; undefined when the file has none. Throws when the file, or its base, is damaged. */
export async function readExplanationFile(
  path: string,
  tenant: string,
): Promise<string | undefined> {
  const file = await openFile(path);
  try {
    const { base } = file;
    const earlier = base === undefined ? undefined : await openFile(join(dirname(path), base));
    try {
      return (await file.block(tenant, await earlier?.block(tenant)))?.toString();
    } finally {
      await earlier?.close();
    }
  } finally {
    await file.close();
  }
}

/** A base that is damaged is none, nor is one that leans on another: a clock that was set back mixes up which was the first. */
async function openBase(path: string, base: string | undefined): Promise<OpenFile | undefined> {
  if (base === undefined) return undefined;
  const file = await openFile(join(dirname(path), base)).catch(() => undefined);
  if (file?.base === undefined) return file;
  await file.close();
  return undefined;
}

/** A file that is open for reading. */
interface OpenFile {
  readonly base: string | undefined;
  /** A tenant's block, unpacked with the base's block at hand if it has one. */
  block(tenant: string, ofBase?: Buffer): Promise<Buffer | undefined>;
  close(): Promise<void>;
}

async function openFile(path: string): Promise<OpenFile> {
  const file = await open(path);
  try {
    const { size } = await file.stat();
    const footer = await bytesAt(file, size - FOOTER_BYTES, FOOTER_BYTES);
    if (footer.toString('latin1', 4) !== MARK) throw new Error('not written to its end');
    const length = footer.readUInt32BE();
    const bytes = await bytesAt(file, size - FOOTER_BYTES - length, length);
    const table = JSON.parse((await unpacked(bytes, undefined)).toString()) as Table;
    const blocks = new Map(table.blocks.map(([tenant, ...place]) => [tenant, place]));
    return {
      base: table.base,
      block: async (tenant, ofBase) => {
        const place = blocks.get(tenant);
        return place && (await unpacked(await bytesAt(file, ...place), ofBase));
      },
      close: () => file.close(),
    };
  } catch (error) {
    await file.close();
    throw error;
  }
}

async function bytesAt(file: FileHandle, offset: number, length: number): Promise<Buffer> {
  if (offset < 0 || length > MAX_BLOCK_BYTES) throw new Error('its table is wrong');
  const { bytesRead, buffer } = await file.read(Buffer.alloc(length), 0, length, offset);
  if (bytesRead < length) throw new Error('it ends early');
  return buffer;
}

function packed(text: string, dictionary: Buffer | undefined): Promise<Buffer> {
  const bytes = Buffer.from(text);
  if (dictionary === undefined) return compress(bytes);
  // As far back as the beginning of the dictionary, and no farther: the window takes memory.
  const windowLog = Math.ceil(Math.log2(bytes.length + dictionary.length + 1));
  const params = { [constants.ZSTD_c_windowLog]: Math.min(26, Math.max(10, windowLog)) };
  return compress(bytes, { dictionary, params });
}

function unpacked(bytes: Buffer, dictionary: Buffer | undefined): Promise<Buffer> {
  const maxOutputLength = MAX_BLOCK_BYTES;
  return decompress(
    bytes,
    dictionary === undefined ? { maxOutputLength } : { maxOutputLength, dictionary },
  );
}
