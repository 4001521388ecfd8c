import { randomUUID } from 'node:crypto';
import { readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { createDatabase, writeBatch } from './database.ts';
import type { Failpoints } from './failpoints.ts';
import { FIRST_CHAIN } from '../event-chain.ts';
import { parseJson } from '../../model/parse-json.ts';
import { damage } from '../failures.ts';
import { isMissing, writeFileDurably, syncDirectory } from './files.ts';
import { createHeadFile } from './head-file.ts';
import { STATE_KEY } from './keys.ts';
import { NEXT_DIRECTORY, segmentName } from './segment-names.ts';
import { encodeState, type LedgerState, linkAfter, NO_ENTRIES } from './state.ts';

/**
 * Format of the files that this code writes. It also reads format 1, which has no link
 * (docs/reference/ledger-format.md#the-link).
 */
export const FORMAT = 2;

/** Identity of a ledger. A directory without one is not a ledger. */
export interface Identity {
  readonly ledgerId: string;
  readonly format: 1 | typeof FORMAT;
  /** RFC 3339. */
  readonly createdAt: string;
}

const FILE = 'IDENTITY';

/** Names that exist only in a ledger that was set up completely. */
const TRACES = /^(?:segment|trash)-/;

/**
 * Reads the identity of the ledger in a directory; undefined if there never was one. Throws a
 * LedgerReadError if it is damaged, or missing although there are events.
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

/** Writes the identity; the last step of setting up a ledger. */
export async function writeIdentity(directory: string, identity: Identity): Promise<void> {
  await writeFileDurably(join(directory, FILE), `${JSON.stringify(identity)}\n`);
}

function parseIdentity(path: string, text: string): Identity {
  const parsed = parseJson(text);
  if (typeof parsed !== 'object' || parsed === null) throw damage(path, `not JSON: "${text}"`);
  const { ledgerId, format, createdAt } = parsed as Record<string, unknown>;
  if (format !== 1 && format !== FORMAT) {
    throw damage(
      path,
      `a format that this release cannot read (it reads 1 and ${FORMAT}): "${String(format)}"`,
    );
  }
  if (typeof ledgerId !== 'string' || ledgerId === '' || typeof createdAt !== 'string') {
    throw damage(path, `without ledgerId or createdAt: "${text}"`);
  }
  return { ledgerId, format, createdAt };
}

const FIRST_SEQUENCE = 1;

/**
 * Sets up a ledger in a directory that has none. The first segment is prepared in `next/`. The
 * ledger exists once IDENTITY is written, and the process that opens it moves the segment into
 * place.
 */
export async function setUpLedger(
  directory: string,
  now: number,
  failpoint: Failpoints,
): Promise<Identity> {
  const identity: Identity = {
    ledgerId: randomUUID(),
    format: FORMAT,
    createdAt: new Date(now).toISOString(),
  } as const;
  const draft = join(directory, NEXT_DIRECTORY);
  await rm(draft, { recursive: true, force: true });
  const database = await createDatabase(draft);
  const value = encodeState(firstState(identity.ledgerId, now));
  await writeBatch(database, [{ type: 'put', key: STATE_KEY, value }]);
  await database.close();
  await syncDirectory(directory);
  await failpoint('set-up:before-head');
  await createHeadFile(directory, {
    epoch: 0,
    batch: 0,
    sequence: 0,
    chain: FIRST_CHAIN,
    segment: segmentName(FIRST_SEQUENCE),
  });
  await failpoint('set-up:before-identity');
  await writeIdentity(directory, identity);
  await failpoint('set-up:after-identity');
  return identity;
}

/** The state of a ledger without events. */
export function firstState(ledgerId: string, now: number): LedgerState {
  const segment = {
    firstSequence: FIRST_SEQUENCE,
    lastSequence: FIRST_SEQUENCE - 1,
    firstChain: FIRST_CHAIN,
    chain: FIRST_CHAIN,
    openedAt: now,
    bytes: 0,
    foreignIds: false,
  };
  return {
    ledgerId,
    batch: 0,
    link: linkAfter(segment),
    segment,
    lowWater: 0,
    horizon: 0,
    entries: NO_ENTRIES,
  };
}
