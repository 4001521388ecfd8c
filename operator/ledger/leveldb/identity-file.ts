import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { damage } from './failures.ts';
import { isMissing, writeFileDurably } from './files.ts';

/** The format of the files that this code reads and writes. */
export const FORMAT = 1;

/** Who a ledger is; decides whether a directory is a ledger at all. */
export interface Identity {
  readonly ledgerId: string;
  readonly format: typeof FORMAT;
  /** RFC 3339. */
  readonly createdAt: string;
}

const FILE = 'IDENTITY';

/** Files that only a ledger that was set up completely leaves behind. */
const TRACES = /^(?:segment|trash)-/;

/**
 * Reads who the ledger in a directory is; undefined when none was ever set up there. Throws a
 * LedgerReadError when it is damaged, or missing although there are events.
 */
export async function readIdentity(directory: string): Promise<Identity | undefined> {
  const path = join(directory, FILE);
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    if (isMissing(error)) return undefined;
    throw error;
  });
  if (text === undefined) {
    const trace = (await readdir(directory)).find((name) => TRACES.test(name));
    if (trace === undefined) return undefined;
    throw damage(path, `missing, although there is a ledger: "${trace}"`);
  }
  return parseIdentity(path, text);
}

/** The last step of setting up a ledger. */
export async function writeIdentity(directory: string, identity: Identity): Promise<void> {
  await writeFileDurably(join(directory, FILE), `${JSON.stringify(identity)}\n`);
}

function parseIdentity(path: string, text: string): Identity {
  const parsed = parseJson(text);
  if (typeof parsed !== 'object' || parsed === null) throw damage(path, `not JSON: "${text}"`);
  const { ledgerId, format, createdAt } = parsed as Record<string, unknown>;
  if (format !== FORMAT) {
    throw damage(
      path,
      `a format that this release cannot read (it reads ${FORMAT}): "${String(format)}"`,
    );
  }
  if (typeof ledgerId !== 'string' || ledgerId === '' || typeof createdAt !== 'string') {
    throw damage(path, `without ledgerId or createdAt: "${text}"`);
  }
  return { ledgerId, format, createdAt };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
